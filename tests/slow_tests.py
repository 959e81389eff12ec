"""Tests that take more than about two seconds: processes, browsers, clusters, training, many random cases."""

SLOW = (
    "tests/attack/test_attack.py",
    "tests/baselines/test_on_campus.py",
    "tests/baselines/test_pgexplainer.py::test_size_and_entropy_cost_what_they_say",
    "tests/study/test_explanations.py::test_a_run_that_is_stopped",
    "tests/study/test_explanations.py::test_the_number_of_workers",
    "tests/study/test_on_ray.py",
    "tests/study/test_workers.py",
    "tests/engine/test_fast.py::test_answers_equal_replay",
    "tests/engine/test_imagined.py::test_answers_about_edits_equal_replay",
    "tests/train/test_train.py::test_a_trained_model_goes_by_the_planted_causes",
    "tests/test_bench.py",
    "tests/test_docs.py::test_the_commands_do_what_the_pages_show",
    "tests/test_docs.py::test_the_python_on_a_page",
    "tests/test_docs.py::test_the_tour",
    "tests/explaining/test_explain.py::test_a_document_with_any_value_replaced",
    "tests/cli/test_output.py::test_what_is_printed_arrives",
    "tests/cli/test_start.py",
    "tests/web/test_browser.py",
    "tests/web/test_live.py",
)
