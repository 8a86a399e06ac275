"""Put Tidegate's page into Airflow's left navigation, and its rights into the API server."""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from tidegate import ui


class TidegatePlugin(AirflowPlugin):  # type: ignore[misc]
    name = "tidegate"
    fastapi_apps: ClassVar = [{"name": "Tidegate", "app": ui.serve, "url_prefix": "/tidegate"}]
    fastapi_root_middlewares: ClassVar = [{"name": "Tidegate", "middleware": ui.SignTriggers}]
    # At the top level: beside a second plugin it would move into a "Plugins" menu. The address is
    # relative to Airflow's <base href>, so that it holds under any api.base_url. Without the slash
    # at its end Airflow's own catch-all route would answer.
    external_views: ClassVar = [
        {"name": "Tidegate", "href": "tidegate/", "url_route": "tidegate", "nav_top_level": True},
        *(
            {"name": "Tidegate", "href": href, "url_route": route, "destination": destination}
            for destination, route, href in (
                ("dag", "tidegate-of-dag", "tidegate/dag/{DAG_ID}"),
                ("dag_run", "tidegate-of-run", "tidegate/dag/{DAG_ID}/{RUN_ID}"),
                ("task", "tidegate-of-task", "tidegate/dag/{DAG_ID}"),
            )
        ),
    ]
