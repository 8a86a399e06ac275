"""Mutants of broker/ and pipelines/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "one broker that answers is no outage",
        "broker/outage.py",
        "self._addresses.resolve(cluster.brokers())",
        "pass",
        "tests/unit/broker/test_outage.py::test_brokers_that_the_connection_does_not_name",
    ),
    Mutant(
        "a late answer is one",
        "broker/outage.py",
        "if answers(known, tls=self._tls, patience=PATIENCE - 3 * _SHORT):",
        "if False:",
        "tests/unit/broker/test_outage.py::test_a_live_cluster_is_never_stopped",
    ),
    Mutant(
        "an outage is found in PATIENCE, with all its probes",
        "broker/outage.py",
        "patience=PATIENCE - 3 * _SHORT",
        "patience=PATIENCE",
        "tests/unit/broker/test_outage.py::test_a_process_that_was_paused_asks_once_more",
    ),
    Mutant(
        "a process that was paused asks once more",
        "broker/outage.py",
        "return not answers(known, tls=self._tls, patience=_SHORT)",
        "return True",
        "tests/unit/broker/test_outage.py::test_a_process_that_was_paused_asks_once_more",
    ),
    Mutant(
        "known addresses are probed, and not names",
        "broker/outage.py",
        "        known = self._addresses.known\n",
        "        self._addresses = Addresses(_bootstrap(self._kafka))\n"
        "        self._addresses.resolve()\n"
        "        known = self._addresses.known\n",
        "tests/unit/broker/test_outage.py::test_a_live_cluster_whose_names_are_lost_is_not_stopped",
    ),
    Mutant(
        "names are resolved again when all are silent",
        "broker/outage.py",
        "            return False\n        self._addresses.resolve()\n",
        "            return False\n",
        "tests/unit/broker/test_outage.py::test_brokers_that_have_moved_are_found",
    ),
    Mutant(
        "a name that hangs holds up no other",
        "broker/outage.py",
        "threading.Thread(target=self._resolve, args=(broker,), daemon=True).start()",
        "self._resolve(broker)",
        "tests/unit/broker/test_outage.py::test_names_that_hang_hold_up_no_other",
    ),
    Mutant(
        "a broker that closes connections is not out",
        "broker/outage.py",
        "except (EOFError, ConnectionResetError, BrokenPipeError, ssl.SSLError):",
        "except ssl.SSLError:",
        "tests/unit/broker/test_outage.py::test_what_accepts_and_closes_answers",
    ),
    Mutant(
        "an epoch's end is not known without a leader",
        "broker/epochs.py",
        "        if leader < 0:\n",
        "        if leader < 0:\n            continue\n        if False:\n",
        "tests/unit/ingest/test_leaderless.py::test_the_end_of_an_epoch_is_not_known_without_a_leader",
    ),
    Mutant(
        "a partition without a leader is not asked for its end",
        "broker/cluster.py",
        "topic: sorted(each.epochs.keys() - each.leaderless)",
        "topic: sorted(each.epochs.keys())",
        "tests/integration/test_leaders.py::test_a_partition_without_a_leader_stops_no_other",
    ),
    Mutant(
        "a probe that makes progress is not given up",
        "broker/consumer.py",
        "            at, give_up = position, time.monotonic() + patience\n        elif",
        "            at = position\n        if",
        "tests/unit/broker/test_probes.py::test_a_large_hole_is_read_while_there_is_progress",
    ),
    Mutant(
        "before 1970 is before all records",
        "broker/cluster.py",
        "since = OffsetSpec.EARLIEST if timestamp_ms < 0 else timestamp_ms",
        "since = timestamp_ms",
        "tests/integration/test_boundaries_live.py::test_before_any_record",
    ),
    Mutant(
        "an unknown protocol is not plaintext",
        "broker/client_settings.py",
        "if not isinstance(protocol, str) or protocol.upper() not in _PROTOCOLS:",
        "if False:",
        "tests/unit/broker/test_client_settings.py::test_an_unknown_protocol_is_never_taken_for_plaintext",
    ),
    Mutant(
        "a login without SASL",
        "broker/client_settings.py",
        'elif not protocol.startswith("SASL") and key in given:',
        "elif False:",
        "tests/unit/broker/test_client_settings.py"
        "::test_settings_that_the_protocol_would_ignore_are_refused",
    ),
    Mutant(
        "no login of an address in a complaint",
        "broker/client_settings.py",
        'if "@" in str(servers):',
        "if False:",
        "tests/unit/broker/test_client_settings.py::test_a_login_in_an_address_is_refused_and_not_shown",
    ),
    Mutant(
        "checks of TLS cannot be turned off",
        "broker/client_settings.py",
        "if key in given and str(given.pop(key)).lower() != value:",
        "if given.pop(key, None) == []:",
        "tests/unit/broker/test_client_settings.py::test_checks_of_tls_may_be_named_and_not_turned_off",
    ),
    Mutant(
        "a strict order needs a key or a partition",
        "pipelines/spec.py",
        "                if columns and _spreads(source, columns):\n",
        "                if False:\n",
        "tests/unit/pipelines/test_egress_spec.py::test_what_contradicts_itself_is_named",
    ),
    Mutant(
        "a source's pattern is one",
        "pipelines/spec.py",
        '            case "path" if value is not None and (wrong := Root.of(value).complaint()):\n',
        '            case "path" if False:\n',
        "tests/unit/pipelines/test_egress_spec.py::test_a_pattern_of_names_that_is_none",
    ),
    Mutant(
        "secrets among Spark settings",
        "pipelines/spec.py",
        "if secrets := secret_settings.secret_settings(conf):",
        "if False:",
        "tests/unit/pipelines/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "secrets within the values of Spark settings",
        "pipelines/secret_settings.py",
        "return has_login(value) or any(",
        "return False and any(",
        "tests/unit/pipelines/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "no mapping in a complaint",
        "pipelines/complaints.py",
        "if isinstance(value, dict | list | tuple | set | bytes) and value:",
        "if False:",
        "tests/unit/pipelines/test_secrets.py::test_no_complaint_quotes_a_secret",
    ),
    Mutant(
        "aliases in a pipeline file",
        "pipelines/yaml_reader.py",
        "if self.check_event(yaml.AliasEvent):",
        "if False:",
        "tests/unit/pipelines/test_hostile_files.py::test_each_bad_value_is_a_complaint",
    ),
    Mutant(
        "an account's key, whatever the account's name",
        "pipelines/secret_settings.py",
        "if _OF_AN_ACCOUNT.search(name):",
        "if False:",
        "tests/unit/pipelines/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "a reference to a secret by its form",
        "pipelines/secret_settings.py",
        "if any(rule.fullmatch(name) and form.fullmatch(value) for",
        "if any(rule.fullmatch(name) and (form.pattern[:3] != 'arn') for",
        "tests/unit/pipelines/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "with a limit by size the expiry is not known",
        "broker/retention.py",
        "return self.ms if self.size is None else None",
        "return self.ms",
        "tests/unit/broker/test_retention.py::test_what_decides_when_records_expire",
    ),
    Mutant(
        "a run that would not read a partition is not advised",
        "doctor/pipeline.py",
        "lifetime / 2)} - stops)",
        "lifetime / 2)})",
        "tests/unit/doctor/test_doctor_broker.py::test_the_broker_and_its_topics",
    ),
    Mutant(
        "with a limit by size the doctor warns",
        "doctor/pipeline.py",
        "    if retention.size is None:\n",
        "    if True:\n",
        "tests/unit/doctor/test_doctor_broker.py::test_the_broker_and_its_topics",
    ),
)
