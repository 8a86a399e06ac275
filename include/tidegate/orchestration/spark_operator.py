"""The operator that runs Spark applications by Airflow's provider, and ends them with the task."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from tidegate.orchestration.airflow_versions import ends_with_the_task
from tidegate.settings import secrets

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

    from tidegate.launch.spark_connection import SparkConnection
    from tidegate.launch.spark_output import SparkOutput
    from tidegate.launch.submission import Submission

_EXIT_CODE = re.compile(r"\bError code is: (\d+)")  # in the provider's error
_MOST = 5_000  # lines of Spark's output in the log of a task that fails

logger = logging.getLogger(__name__)


class SparkOperator(SparkSubmitOperator):  # type: ignore[misc]  # Airflow is not read by mypy
    """Runs applications by the provider's spark-submit. They end with the task.

    `spark` is set before the first one is submitted.
    """

    spark: SparkConnection

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**ends_with_the_task(SparkSubmitOperator), **kwargs)
        self._output: SparkOutput | None = None
        self._submitted: Submission | None = None

    def on_kill(self) -> None:
        """End spark-submit and, in cluster mode, the application, which would not end with it."""
        super().on_kill()
        if self._submitted is not None and self._submitted.kill:
            self._submitted.kill(logger.info)

    def submit(self, submission: Submission, context: Context) -> None:
        """Run an application to its end by the Spark provider; raises StageFailed.

        If it fails, the log gets its whole output: the worker, with its files, may be gone soon.
        """
        from tidegate.launch.masters import for_master
        from tidegate.launch.spark_output import application_failure
        from tidegate.launch.spark_submit import killed_on_error, supervise

        submission = for_master(submission, self.spark.master)
        self.application = str(submission.application)
        self.application_args = list(submission.args)
        self.conf = dict(submission.conf)
        self.name = submission.name
        self.env_vars = dict(submission.env)
        self.jars = ",".join(submission.jars)
        self._spark_binary = submission.binary
        self._submitted = submission
        self._hook = None  # made from these attributes, when the provider has looked at them
        with (
            killed_on_error(submission, logger.info),
            supervise(submission, self.on_kill, logger.info) as self._output,
        ):
            try:
                super().execute(context)  # the provider's
            except Exception as error:
                whole = self._output.tail(_MOST)
                for line in ("::group::Spark's whole output", *whole, "::endgroup::"):
                    logger.info("%s", line)
                code = _EXIT_CODE.search(str(error))
                causes = self._output.causes or [str(error)]
                raise application_failure(
                    submission.name, causes, int(code[1]) if code else None
                ) from None

    def _get_hook(self) -> SparkSubmitHook:
        """Return the provider's hook, which logs what people are to see of Spark's output."""
        from tidegate.launch.spark_connection import LOCAL
        from tidegate.orchestration.spark_hook import ConnectedHook

        output, submitted = self._output, self._submitted
        if output is None or submitted is None:  # killed before anything was submitted
            return ConnectedHook(LOCAL, {})
        # OpenLineage's provider may have added settings, such as the key of an API.
        added = {name: v for name, v in self.conf.items() if name not in submitted.conf}
        if found := secrets.secret_settings(added):
            logger.warning("not given to Spark: %s: %s", ", ".join(found), secrets.WHY)
        conf = {name: value for name, value in self.conf.items() if name not in found}
        hook = ConnectedHook(
            self.spark, self.env_vars, conf=conf, jars=self.jars, name=self.name,
            application_args=self.application_args, spark_binary=self._spark_binary,
        )  # fmt: skip
        log = hook._process_spark_submit_log
        hook._process_spark_submit_log = lambda lines: log(output.shown(lines))
        return hook
