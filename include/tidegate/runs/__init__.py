"""The use cases: plan, stage, publish, verdict, and the questions one asks. No Airflow here."""
