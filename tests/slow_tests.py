"""Tests that `bash .ci/run fast` leaves out, because they take long: with all their parameters more than half a second.

Folders whose tests run whole pipelines are left out wholly, the tests below one by one; every other tier plays all.
"""

SLOW_FOLDERS = (
    "laws",
    "dagster",
    "branches",
    "history",
    "replay",
    "growth",
    "old_warehouses",
    "expectations",
    "quality",
    "explain",
)

SLOW_TESTS = {
    "tests/airflow/test_flights_dag.py": ("test_the_command_understands_what_the_tasks_run",),
    "tests/benchmarks/test_bench.py": (
        "test_a_program_that_dies_says_why",
        "test_another_sum_and_a_program_that_fails_are_errors_in_table_and_exit_code",
        "test_rows_of_a_folder_are_used_again_and_not_for_another_number",
        "test_the_rows_are_as_described",
    ),
    "tests/benchmarks/test_start_up.py": (
        "test_a_local_run_of_few_records_comes_without_a_compiler_spark_and_dagster",
        "test_numba_switched_off_by_its_own_variable_gives_the_same",
        "test_showing_rows_comes_without_a_compiler_spark_and_dagster",
        "test_the_test_driver_comes_without_a_compiler_spark_delta_and_dagster",
    ),
    "tests/conformance/test_goldens.py": ("test_where_a_batch_is_cut_into_chunks_changes_no_scenario",),
    "tests/examples/test_readme.py": (
        "test_the_commands_over_a_users_own_data_do_what_readme_says",
        "test_the_count_is_the_same_for_each_way_to_cut_the_eight_records",
    ),
    "tests/execution/test_loading_by_keys.py": (
        "test_increments_over_a_large_store_leave_what_one_big_increment_leaves",
    ),
    "tests/execution/test_placed_stages.py": (
        "test_a_lost_hint_and_lost_caches_change_no_table",
        "test_a_sticky_group_keeps_tasks_where_they_were_and_looks_at_no_state",
        "test_a_worker_that_dies_in_a_stage_leaves_its_tasks_to_their_standbys",
        "test_a_worker_that_joins_learns_its_tasks_first_and_then_takes_them_over",
    ),
    "tests/execution/test_spark_class_archive.py": ("test_where_no_spark_starts_the_error_has_its_last_line",),
    "tests/functions/folds/test_expression_fold.py": ("test_it_is_the_same_fold_as_in_python_however_it_is_cut",),
    "tests/functions/folds/test_folds.py": ("test_a_fold_passes_over_nulls_and_forwards_every_update",),
    "tests/functions/test_sql_text.py": (
        "test_a_long_chain_of_conditions_is_true_when_all_of_one_of_its_alternatives_are",
    ),
    "tests/functions/test_types_in_steps.py": ("test_a_fold_takes_and_gives_any_type",),
    "tests/kernels/test_compilation.py": (
        "test_after_compile_kernels_a_replay_of_many_increments_compiles_nothing_more",
        "test_kernels_say_who_calls_them",
    ),
    "tests/kernels/test_earlier_changes.py": (
        "test_what_begins_in_a_slot_is_new_and_what_goes_on_follows_its_last_update",
    ),
    "tests/landing/test_from_files.py": ("test_the_cut_into_slices_changes_neither_order_nor_offsets",),
    "tests/landing/test_from_records.py": ("test_a_landing_reads_as_few_files_of_its_ledger_after_many_as_after_few",),
    "tests/landing/test_landing_crashes.py": ("test_whenever_it_dies_every_row_lands_once",),
    "tests/landing/test_mapping.py": ("test_another_mapping_is_refused_and_a_new_one_is_noted_in_the_ledger",),
    "tests/landing/test_recorded_time.py": (
        "test_a_flush_reads_everything_and_closes_all_windows",
        "test_a_pipeline_that_was_flushed_takes_no_more_records",
        "test_a_recorded_time_of_a_quiet_partition_lets_the_others_go_on",
        "test_below_a_repartition_time_moves_when_all_partitions_above_were_told",
        "test_it_stands_before_what_was_landed_later_for_every_pipeline",
    ),
    "tests/operators/aggregates/test_speculative_batches.py": (
        "test_memory_does_not_grow_with_records",
        "test_what_a_none_changes_is_met_by_the_next_record",
    ),
    "tests/operators/joins/test_complete_history_join.py": (
        "test_a_cut_changes_nothing_even_when_history_expires",
        "test_an_older_deletion_deletes_the_results_that_stood_on_it",
        "test_at_every_time_the_result_is_the_join_of_what_both_tables_showed",
        "test_the_kips_own_listing",
    ),
    "tests/operators/joins/test_foreign_key_partitioners.py": (
        "test_answers_go_to_where_the_partitioner_of_the_left_table_says",
        "test_it_is_told_the_topic_and_no_value",
        "test_none_leaves_a_message_where_it_would_have_gone",
        "test_subscriptions_go_to_where_the_right_table_has_its_keys",
    ),
    "tests/operators/joins/test_foreign_key_topology.py": ("test_a_batch_is_processed_as_record_by_record",),
    "tests/operators/joins/test_stream_join_against_model.py": (
        "test_a_kernel_that_runs_out_of_room_goes_on_where_it_stopped",
    ),
    "tests/operators/joins/test_stream_table_join.py": (
        "test_joins_agree_with_the_model_wherever_the_tape_is_cut",
        "test_versions_kept_once_or_twice_give_the_same",
    ),
    "tests/operators/processor/test_session_and_versioned_stores.py": ("test_where_the_tape_is_cut_changes_nothing",),
    "tests/operators/processor/test_wall_clock.py": ("test_recorded_ticks_are_repeated_wherever_the_topic_is_cut",),
    "tests/operators/suppress/test_suppress_against_model.py": (
        "test_what_leaves_and_what_the_buffer_holds_is_that_of_the_model",
    ),
    "tests/operators/suppress/test_suppress_order_kernel.py": ("test_few_and_many_leave_as_python_sorts_them",),
    "tests/operators/suppress/test_suppress_spill.py": (
        "test_memory_stays_within_the_bound_while_an_unbounded_buffer_grows",
    ),
    "tests/operators/tables/test_tables_against_model.py": (
        "test_a_topology_of_tables_does_what_its_processors_do_one_after_the_other",
    ),
    "tests/operators/tables/test_versioned_store.py": (
        "test_puts_and_lookups_agree_with_the_model_though_expired_versions_are_gone",
    ),
    "tests/operators/test_deduplicate.py": ("test_it_says_what_the_text_says_wherever_the_tape_is_cut",),
    "tests/operators/test_hot_keys.py": (
        "test_stream_joins",
        "test_versions",
    ),
    "tests/orchestration/cli/test_branch_commands.py": (
        "test_a_branch_is_forked_replayed_compared_promoted_and_dropped",
        "test_all_increments_are_checked_those_of_a_branch_too",
        "test_books_say_what_was_restated_and_count_it_once",
    ),
    "tests/orchestration/cli/test_check_topology_command.py": ("test_a_wish_lets_it_go_on",),
    "tests/orchestration/cli/test_land.py": ("test_a_reader_that_has_gone_does_not_stop_the_landing",),
    "tests/orchestration/cli/test_machine_trouble.py": ("test_a_project_with_packages_jobs_and_state_of_its_own_runs",),
    "tests/orchestration/cli/test_main.py": (
        "test_a_recorded_time_and_the_end_of_history_close_windows",
        "test_a_run_that_can_apply_nothing_exits_with_4_and_one_that_leaves_much_out_with_5",
        "test_land_run_check_and_show_work_one_after_the_other_without_java",
    ),
    "tests/orchestration/cli/test_sql.py": ("test_no_query_reads_a_file_of_the_machine",),
    "tests/orchestration/cli/test_storage_option.py": (
        "test_topics_land_are_replayed_checked_and_shown_on_an_object_store",
    ),
    "tests/state/compilation/test_kernel_tiers.py": (
        "test_a_compiler_that_dies_hurts_nobody",
        "test_a_replay_that_switches_tier_anywhere_leaves_the_same_rows",
        "test_several_modules_are_compiled_side_by_side",
        "test_warming_up_compiles_what_is_called_and_says_how_much_was_new",
        "test_what_is_missing_is_compiled_by_another_process_and_records_come_in_small_pieces_until_then",
        "test_where_waiting_is_quicker_it_waits_and_tells_how_far_the_compiler_is",
    ),
    "tests/state/records/test_keys.py": ("test_the_kernels_say_the_same_without_jit",),
    "tests/state/runs/test_sorted_runs.py": (
        "test_all_rows_are_those_of_a_dictionary",
        "test_rows_of_keys_are_those_of_the_dictionary_with_these_keys",
    ),
    "tests/state/serdes/avro/test_avro_pipeline.py": (
        "test_a_record_is_explained",
        "test_tables_hold_typed_values_and_a_cut_changes_nothing",
    ),
    "tests/state/serdes/avro/test_confluent_format.py": (
        "test_a_key_is_found_in_the_store_of_an_increment_before_whichever_id_wrote_it",
    ),
    "tests/state/serdes/avro/test_kept_schemas.py": (
        "test_an_id_of_another_schema_is_of_another_registry",
        "test_what_was_kept_stays_as_it_is",
    ),
    "tests/state/serdes/test_serdes.py": (
        "test_a_slice_of_a_column_and_a_wide_one_are_read_like_a_whole_one",
        "test_sizes_are_the_lengths_of_the_serialized_bytes_and_zero_for_null",
        "test_what_is_encoded_is_decoded_to_the_same",
    ),
    "tests/state/serdes/test_serdes_json.py": (
        "test_a_row_is_judged_by_itself_whatever_stands_beside_it",
        "test_the_decoder_keeps_the_declared_rule",
    ),
    "tests/state/serdes/test_serdes_packed.py": ("test_what_is_encoded_is_decoded_to_the_same",),
    "tests/state/stores/test_skip_lists.py": ("test_a_place_is_found_wherever_it_is_while_items_come_and_go",),
    "tests/state/tables/test_compaction.py": (
        "test_a_runner_that_paused_until_its_version_was_forgotten_sees_what_happened",
        "test_of_two_that_forget_the_same_log_neither_stops",
        "test_the_log_of_a_ledger_stays_short_and_its_rows_are_all_there",
    ),
    "tests/state/tables/test_data_files.py": ("test_a_changed_entry_is_an_error",),
    "tests/tape/test_landed_slice.py": (
        "test_a_replay_does_not_depend_on_how_keys_are_read",
        "test_keys_are_a_dictionary_where_many_come_again_in_a_large_row_group",
    ),
    "tests/task/test_exception_handlers.py": ("test_a_replay_gives_the_same_wherever_the_tape_is_cut",),
    "tests/task/test_failing_records.py": ("test_such_records_become_dead_letters_wherever_the_tape_is_cut",),
    "tests/task/test_pure_functions.py": (
        "test_a_counter_in_a_function_that_meets_a_store_or_a_table_is_told_of_at_the_first_increment",
        "test_pure_functions_are_not_told_of",
    ),
    "tests/task/test_record_run.py": ("test_every_operator_does_record_by_record_what_kafka_streams_did",),
    "tests/task/test_task_cuts.py": ("test_where_the_tape_is_cut_into_increments_changes_nothing",),
    "tests/test_broken_rules.py": (
        "test_a_rule_that_can_be_broken_stands_in_one_file",
        "test_the_test_that_hears_what_is_wrong_is_there",
    ),
    "tests/test_docs.py": (
        "test_every_document_that_is_named_somewhere_is_there",
        "test_every_error_of_the_packages_stands_in_the_tree",
    ),
    "tests/test_shown_code.py": ("test_the_python_that_a_page_shows_runs",),
    "tests/testing/test_output_assertion.py": (
        "test_the_first_record_that_differs_is_shown_and_explained",
        "test_the_fixture_closes_its_drivers_after_the_test",
        "test_times_and_headers_are_compared_where_they_are_expected",
    ),
    "tests/topology/test_docstring_examples.py": ("test_the_example_of_a_call_runs",),
    "tests/topology/test_partitioned_outputs.py": (
        "test_records_are_where_the_partitioner_says_in_one_several_or_none",
    ),
    "tests/topology/test_several_topics.py": ("test_through_tables_they_meet_by_time_wherever_they_are_cut",),
    "tests/topology/test_topic_patterns.py": (
        "test_a_record_of_an_earlier_increment_is_explained_after_another_topic_has_landed",
        "test_verify_runs_increments_again_with_the_topics_that_they_read",
    ),
    "tests/topology/test_windowed_keys.py": ("test_tables_over_windowed_keys_are_the_same_wherever_the_tape_is_cut",),
}
"""By file: the names of functions."""
