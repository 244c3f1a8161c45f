"""``python -m tests.silences``: what once was wrong without a word, the test that notices it, and how to silence it.

Owns the list: what is damaged, doubled, left out, waiting or lost, and the words in which trouble is reported. Each
change of one line is made in a copy of the checkout, where the test must fail (tests/broken_rules.py).
"""

import sys

from tests.broken_rules import BrokenRule, main

_CLI = "orchestration/cli"


def _silence(wrong: str, noticed_by: str, old: str, new: str) -> BrokenRule:
    """``wrong``: what happened; ``noticed_by``: a test below `tests/`. With ``new`` for ``old`` nothing is said."""
    return BrokenRule(wrong, "is noticed", old, new, f"tests/{noticed_by}")


SILENCES = [
    # --- damaged -------------------------------------------------------------------------------------------------
    _silence(
        "a bit of a page flipped", "state/tables/test_parquet_reader.py::test_no_flipped_bit_changes_a_row",
        "page_checksum_verification=True", "page_checksum_verification=False",
    ),
    _silence(
        "a bit of a footer flipped",
        "state/tables/test_parquet_reader.py::test_every_flipped_bit_of_a_footer_is_an_error",
        "if token is not None and not holds(footer, token):", "if token is None and not holds(footer, b''):",
    ),
    _silence(
        "a row of a ledger changed",
        "state/tables/test_ledger.py::test_a_row_that_says_something_else_than_was_written_is_an_error",
        """if digest is not None and digest != _digest_of({**row, "content": _as_text(content)}):""",
        "if digest is not None and digest == '':",
    ),
    _silence(
        "an entry of a Delta log changed", "state/tables/test_data_files.py::test_a_changed_entry_is_an_error",
        "if digest is not None and digest != _digest_of(table, actions):", "if digest is not None and digest == '':",
    ),
    _silence(
        "a file with other rows than its log says",
        "history/test_fsck.py::test_a_file_with_other_rows_than_the_log_says_is_found",
        "if rows != file.records:", "if rows < 0:",
    ),
    _silence(
        "a ledger deleted, and its tables kept",
        "laws/test_damage.py::test_a_run_without_its_ledger_stops_and_writes_nothing",
        "if mark <= (0 if last is None else last.increment):", "if last is None or mark <= last.increment:",
    ),
    _silence(
        "rows of an output that the ledger does not know",
        "expectations/test_books_balance.py::test_an_output_with_other_rows_than_the_ledger_says_is_false",
        "if rows != booked:", "if rows < 0:",
    ),
    _silence(
        "a state file deleted while its warm copy lives",
        "laws/test_damage.py::test_a_state_file_that_is_gone_is_noticed_though_its_warm_copy_lives",
        "refuse_missing(state_file.table, [state_file.file])", "refuse_missing(state_file.table, [])",
    ),
    _silence(
        "an output's file deleted",
        "laws/test_damage.py::test_an_output_file_that_is_gone_is_noticed_by_check_and_fsck",
        "        refuse_missing(path, files)", "        pass",
    ),
    # --- touched by others ---------------------------------------------------------------------------------------
    _silence(
        "somebody else appended to an output",
        "state/tables/test_foreign_commits.py::test_the_error_says_what_is_left_and_what_to_paste",
        "if not touched.is_rearranged:", "if touched.is_nothing:",
    ),
    _silence(
        "rows replaced under cover of an OPTIMIZE",
        "state/tables/test_foreign_commits.py::test_rows_that_came_and_went_under_cover_of_an_optimize_are_seen",
        "if is_altered or not is_whole or", "if not is_whole or",
    ),
    _silence(
        "somebody else committed while an increment did",
        "state/tables/test_foreign_commits.py::test_one_who_is_quicker_than_a_commit_is_seen_behind_it",
        "if since is not None and version > before + 1:", "if since is not None and version < before:",
    ),
    _silence(
        "files with deletion vectors",
        "state/tables/test_foreign_commits.py::test_a_feature_that_changes_what_files_mean_is_refused_by_name",
        "unknown = set(protocol.reader_features or ()) - READ_FEATURES", "unknown = set[str]()",
    ),
    # --- landed twice, wrongly or not at all ---------------------------------------------------------------------
    _silence(
        "a renamed file landed twice",
        "landing/test_known_files.py::test_a_renamed_file_is_refused_with_both_names_and_nothing_is_planned",
        "if not self.rules.allow_same_content and", "if self.rules.allow_same_content and",
    ),
    _silence(
        "another record at a landed offset is taken for a repetition",
        "landing/test_coordinates.py::test_below_what_has_landed_only_the_same_bytes_are_taken",
        "if below and self.landed is not None:", "if below and self.landed is None:",
    ),
    _silence(
        "the order of names wins over offsets",
        "landing/test_coordinates.py::test_batches_of_sparks_kafka_source_land_in_the_order_of_offsets_whatever_their_names",
        "if not is_sorted and (offset[1:] < offset[:-1]).any():", "if is_sorted:",
    ),
    _silence(
        "a key column that no row has",
        "landing/test_mapping.py::test_a_column_that_no_row_has_is_refused_and_nothing_lands",
        "if absent and with_rows:", "if absent and not with_rows:",
    ),
    _silence(
        "another mapping than before",
        "landing/test_mapping.py::test_another_mapping_is_refused_and_a_new_one_is_noted_in_the_ledger",
        "if changes and refuse:", "if changes and not refuse:",
    ),
    _silence(
        "a mistyped pattern",
        "landing/test_known_files.py::test_a_first_landing_whose_pattern_matches_no_file_is_refused_and_fixes_nothing",
        "if not files and is_new_pattern and not self.rules.allow_empty:",
        "if not files and not is_new_pattern and not self.rules.allow_empty:",
    ),
    _silence(
        "a file that grew since it was planned",
        "landing/test_given_up_plans.py::test_a_file_that_grows_while_it_is_written_is_planned_anew",
        "if entry.size != size or mtime_ns not in (None, entry.mtime_ns):", "if entry.size < size:",
    ),
    _silence(
        "files of one name in two folders below",
        "landing/test_known_files.py::test_equal_names_in_two_folders_below_do_not_collide",
        'name = entry.path[len(root) :].lstrip("/")', "name = entry.base_name",
    ),
    _silence(
        "many bad rows of a file",
        "landing/test_bad_rows.py::test_more_than_one_per_cent_of_a_files_rows_stop_the_landing",
        "if bad > most * rows:", "if bad > rows:",
    ),
    _silence(
        "seconds taken for milliseconds",
        "landing/test_bad_rows.py::test_times_that_can_hardly_be_meant_are_told_and_land",
        "outside = np.flatnonzero(((times < earliest_ms) & (times != NO_TIMESTAMP_MS)) | (times > latest_ms))",
        "outside = np.flatnonzero(times > latest_ms)",
    ),
    _silence(
        "records later than the clock",
        "landing/test_bad_rows.py::"
        "test_records_later_than_the_clock_and_more_become_dead_letters_when_that_is_asked_for",
        "_refuse_later(time_ms, LATEST_MS if latest_ms is None else min(latest_ms, LATEST_MS))",
        "_refuse_later(time_ms, LATEST_MS)",
    ),
    _silence(
        "files of another format than is read", "landing/test_known_files.py::test_the_extension_tells_the_format",
        "return replace(self, format=next(iter(formats))) if formats else self", 'return replace(self, format="json")',
    ),
    _silence(
        "CSV numbers as text where longs are read",
        f"{_CLI}/test_land.py::test_csv_columns_have_the_types_of_the_serde_that_reads_them",
        "if value.is_struct and has_text_cells and not source.types and not isinstance(source.value, str):",
        "if value.is_struct and has_text_cells and source.types and not isinstance(source.value, str):",
    ),
    _silence(
        "values that no reader can decode",
        f"{_CLI}/test_land.py::test_what_no_reader_could_decode_is_refused_before_it_lands",
        "if bad and bad > most * rows:", "if bad > rows:",
    ),
    # --- said by the topology ------------------------------------------------------------------------------------
    _silence(
        "a field that an option swallows",
        "topology/test_named_fields.py::test_what_may_be_an_option_and_a_field_is_refused",
        "if name is not None and columns is not None and _names_columns(name, columns):",
        "if name is not None and columns is None and _names_columns(name, columns):",
    ),
    _silence(
        "refusals that the books hide",
        "replay/test_books.py::test_what_stands_ahead_of_a_window_hides_no_refusal",
        "numbers[0] += len(distinct(cause))", "numbers[0] += int((~chunk.applied)[np.unique(cause)].sum())",
    ),
    _silence(
        "records of which nothing is kept, as applied",
        "replay/test_books.py::test_a_record_of_which_nothing_is_kept_is_left_out_and_not_applied",
        "self.applied += int(applied.sum())", "self.applied += int((mine_read & ~dropped).sum())",
    ),
    _silence(
        "a step that does not answer alike twice",
        "task/test_pure_steps.py::test_a_counter_in_a_step_is_told_of_at_the_first_increment",
        "return None if together == apart else in_a_sentence(together, apart, outside)", "return None",
    ),
    _silence(
        "a function beside a store that does not answer alike twice",
        "task/test_pure_functions.py::"
        "test_a_counter_in_a_function_that_meets_a_store_or_a_table_is_told_of_at_the_first_increment",
        "if one != other:", "if len(one) != len(other):",
    ),
    _silence(
        "an explanation of other rows than the table has",
        "explain/test_committed_rows.py::"
        "test_a_counter_is_told_with_the_row_the_committed_value_and_that_of_the_rerun",
        "said = _first(table, run, by_offset(committed), by_offset(again))", "said = None",
    ),
    # --- green, though nothing happened --------------------------------------------------------------------------
    _silence(
        "records that wait for another partition",
        "dagster/test_waiting.py::test_a_static_table_holds_everything_back_and_after_two_runs_a_check_warns",
        "slowest = dict.fromkeys((each.for_topic, each.for_partition) for each in waits)", "slowest = {}",
    ),
    _silence(
        "results that wait in a suppress", f"{_CLI}/test_what_waits.py::test_results_that_are_not_final_are_counted",
        "waiting.append(WaitingResults(store, count, first_ms, last_ms))", "continue",
    ),
    _silence(
        "records that cannot be decoded, in Dagster",
        "dagster/test_waiting.py::test_records_that_cannot_be_decoded_are_red_when_all_are_and_warned_of_above_one_in_a_hundred",
        "passed=pipeline.refused.allows(refused, read) and not applied_nothing,", "passed=not applied_nothing,",
    ),
    _silence(
        "a run that can apply nothing",
        f"{_CLI}/test_main.py::test_a_run_that_can_apply_nothing_exits_with_4_and_one_that_leaves_much_out_with_5",
        "if is_nothing_applied(read, applied, left_out):", "if is_nothing_applied(read, applied + left_out, read):",
    ),
    _silence(
        "a run with nothing new, as materialized",
        "dagster/test_assets.py::test_a_run_with_nothing_new_materializes_nothing_and_its_checks_are_made",
        "if last is None or (known is not None and not unheard):", "if last is None:",
    ),
    _silence(
        "a run that was lost",
        "dagster/test_schedules.py::test_a_run_whose_heart_stopped_is_lost_and_the_next_one_begins",
        "if beat is not None and at_ms - beat.written_at_ms > LOST_SECONDS * 1000:",
        "if beat is not None and at_ms < 0:",
    ),
    _silence(
        "lateness of other tasks than those that wrote the table",
        "dagster/test_waiting.py::test_lateness_and_seconds_are_those_of_the_tasks_that_wrote_the_table",
        "own = report.lateness_by_sub_topology.get(str(sub.id), {})",
        "own = next(iter(report.lateness_by_sub_topology.values()), {})",
    ),
    _silence(
        "what another warehouse's pipeline of one name did",
        "dagster/test_assets.py::test_two_warehouses_with_a_pipeline_of_one_name_are_told_apart",
        "if table is None or table.value == path:", "if table is None or table.value:",
    ),
    _silence(
        "a run over another warehouse, waited for",
        "dagster/test_schedules.py::test_a_run_over_another_warehouse_is_not_waited_for",
        "{WAREHOUSE_TAG: pipeline.known_root}", '{WAREHOUSE_TAG: "one"}',
    ),
    # --- stuck ---------------------------------------------------------------------------------------------------
    _silence(
        "code that takes over what has rows already",
        "laws/test_takeover.py::test_what_has_rows_already_is_not_taken_over_but_given_up_by_a_restore",
        "if _mark(warehouse, pipeline, table, planned.epoch) == planned.increment",
        "if _mark(warehouse, pipeline, table, planned.epoch) == -1",
    ),
    _silence(
        "the record on which a step failed",
        "task/test_failing_records.py::test_what_stops_a_run_names_topic_partition_offset_and_step",
        "raise _named(operator, batch, chunk, error) from error.__cause__", "raise",
    ),
    _silence(
        "a branch with one fold more", "laws/test_promoted_columns.py::test_a_branch_with_one_fold_more_is_promoted",
        "other = other_types(there, pa.schema(brought.schema().to_arrow()))",
        'other = [] if there.schema() == brought.schema() else ["its columns"]',
    ),
    _silence(
        "columns of lists, compared",
        "history/test_output_diff.py::test_lists_are_compared_whatever_stands_on_the_other_side",
        "if any(kind.is_nested() for kind in kinds):", "if not kinds:",
    ),
    _silence(
        "what a function does to a record that there is not in the end",
        "laws/test_loops.py::test_a_function_that_fails_only_until_what_went_round_is_there_ends_nothing",
        "is_trial=exchange.may_run_again)", "is_trial=False)",
    ),
    _silence(
        "what fails in the last run of a loop",
        "laws/test_loops.py::test_a_function_that_fails_in_the_end_ends_the_run",
        "any(report.has_failed for report in reports)", "False",
    ),
    _silence(
        "a handler that is asked about records that there are not",
        "laws/test_loops.py::test_a_handler_is_asked_about_what_fails_in_the_end_and_nothing_else",
        "return lambda: resumed(self._new_task())", "return lambda: resumed(self._task())",
    ),
    # --- words at the moment of trouble --------------------------------------------------------------------------
    _silence(
        "a disk that takes no more",
        f"{_CLI}/test_machine_trouble.py::test_a_disk_that_takes_no_more_ends_a_run_with_one_sentence",
        "number = error.errno if error.errno is not None else _number(str(error))", "return None",
    ),
    _silence(
        "the section of docs/when-something-is-wrong.md that explains an error",
        f"{_CLI}/test_machine_trouble.py::test_a_disk_that_is_full_while_a_task_runs_is_no_bug_either",
        '_say(invocation, f"replay: {_in_options(str(failure))} [{see(type(failure))}]", error)',
        '_say(invocation, f"replay: {_in_options(str(failure))}", error)',
    ),
    _silence(
        "what Ctrl-C kept", "laws/test_stopped_runs.py::test_a_stopped_run_says_so_and_the_next_one_goes_on",
        'print(f"replay: {invocation.kept}; the same command continues from there", file=sys.stderr)', "pass",
    ),
    _silence(
        "a query that reads a file of the machine", f"{_CLI}/test_sql.py::test_no_query_reads_a_file_of_the_machine",
        "reads = _READS.search(query)", "reads = None",
    ),
    _silence(
        "an output with the name of the pipeline's drops",
        "topology/test_store_names.py::test_no_output_and_no_store_is_called_as_a_table_that_every_pipeline_has",
        "if name in RESERVED:", "if not name:",
    ),
    _silence(
        "values cut in a table that is to be wide",
        f"{_CLI}/test_main.py::test_long_values_are_cut_unless_the_table_is_wide",
        "sys.maxsize if wide or name in _WHOLE", "sys.maxsize if name in _WHOLE",
    ),
    _silence(
        "a step that takes long",
        "orchestration/test_progress_lines.py::test_what_takes_long_is_named_after_three_seconds_and_then_every_ten",
        "if self._doing and quiet >= (LINE_SECONDS if is_named else SILENCE_SECONDS):",
        "if self._doing and quiet >= LINE_SECONDS:",
    ),
    # --- on an object store --------------------------------------------------------------------------------------
    _silence(
        "an increment committed twice by a run that died there",
        "laws/test_object_store.py::test_a_run_that_dies_anywhere_on_an_object_store_leaves_no_trace",
        "    if _has_increment(table, path, app_id, increment):", "    if not increment:",
    ),
    _silence(
        "an increment committed twice by two runners there",
        "laws/test_object_store.py::test_of_two_runners_on_an_object_store_one_wins",
        "    if _has_increment(table, path, app_id, increment):", "    if not increment:",
    ),
]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(SILENCES, __doc__))
