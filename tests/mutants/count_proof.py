"""Mutants of the proof by counts: each condition without which a count proves nothing."""

from mutants.mutant import Mutant

_JUDGE, _CASES = "core/count_proof.py", "tests/unit/core/test_count_proof.py"
_ASKS, _SENDS = "spark/producer_table.py", "tests/spark/test_proof_by_counts.py"

MUTANTS = (
    Mutant(
        "one new producer where rows were sent to",
        _JUDGE,
        "for producer in new[place]}) != 1:",
        "for producer in new[place]}) < 1:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a producer that was there before is not ours",
        _JUDGE,
        "if p.id not in known[place]]",
        "]",
        f"{_CASES}::test_one_new_producer_has_sent_the_rows",
    ),
    Mutant(
        "an epoch bump proves nothing",
        _JUDGE,
        "if producer.epoch != 0:",
        "if False:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a transactional producer proves nothing",
        _JUDGE,
        "if producer.in_transaction:",
        "if False:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a number that has begun again proves nothing",
        _JUDGE,
        "if not 0 <= producer.last_sequence < _MOST_ROWS - 1:",
        "if producer.last_sequence < 0:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a table that forgets by another clock proves nothing",
        _JUDGE,
        "abs(now - producer.last_time) > _MOST_AGE",
        "False",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "an election in between proves nothing",
        _JUDGE,
        "if (old.leader, old.epoch) != (now.leader, now.epoch) or old.epoch < 0:",
        "if old.leader != now.leader:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a broker that does not say the epoch proves nothing",
        _JUDGE,
        " or old.epoch < 0:",
        ":",
        f"{_CASES}::test_an_election_without_a_number_proves_nothing",
    ),
    Mutant(
        "a recreated topic proves nothing",
        _JUDGE,
        "if old.topic_id != now.topic_id:",
        "if False:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a partition that was added proves nothing",
        _JUDGE,
        "if before.keys() != after.keys():",
        "if before.keys() - after.keys():",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "a log that has not grown as much proves nothing",
        _JUDGE,
        "if each.end - before[place].end < rows.get(place, 0):",
        "if False:",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "rows where none was to be",
        _JUDGE,
        "for place in sorted(wanted.keys() | rows.keys()):",
        "for place in sorted(place for place in wanted if wanted[place]):",
        f"{_CASES}::test_what_is_not_proven",
    ),
    Mutant(
        "the sum over a topic",
        _JUDGE,
        "if (total := sum(rows.values())) != wanted:",
        "if (total := sum(rows.values())) > wanted:",
        f"{_CASES}::test_where_kafka_chooses_the_sum_is_compared",
    ),
    Mutant(
        "after an attempt that may have sent, all is read back",
        _ASKS,
        "        or job.resumed\n",
        "",
        f"{_SENDS}::test_an_earlier_attempt_that_may_have_sent",
    ),
    Mutant(
        "proof: full reads all back",
        _ASKS,
        'job.proof != "counts"',
        "False",
        f"{_SENDS}::test_all_is_read_back_if_the_pipeline_says_so",
    ),
    Mutant(
        "the first record has the content of its row",
        _ASKS,
        "if known.get(identity) != (topic, *content):",
        "if identity not in known:",
        f"{_SENDS}::test_first_rows_with_other_content",
    ),
)
