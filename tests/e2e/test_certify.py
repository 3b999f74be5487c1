"""`adapter certify`: the conformance lists on the built libraries, by the built binary."""

import json

import pytest

from conftest import BIN, HERE

ADAPTERS = HERE.parent.parent / "adapters"
TESTED = {"in-process", "process"}


def certify(one, library, *more):
    done = one.cli("adapter", "certify", library, "--json", *more, check=False)
    return done.returncode, json.loads(done.stdout)


def test_telegram_passes_every_case_with_its_stage_in_both_isolations(host):
    sample = ADAPTERS / "telegram/testdata/certify.toml"
    code, report = certify(host(""), BIN / "libhermes_adapter_telegram.so", "--sample", sample)
    failed = [case for tried in report["isolations"] for case in tried["cases"] if case["verdict"] != "passed"]
    assert (code, report["verdict"], failed) == (0, "certified", [])
    assert {tried["isolation"] for tried in report["isolations"]} == TESTED
    assert "handoff-thread-is-its-messages-chat" in {case["id"] for case in report["isolations"][0]["cases"]}


def test_webhooks_pass_every_case_that_a_service_without_an_account_has(host):
    sample = ADAPTERS / "webhook/testdata/certify.toml"
    code, report = certify(host(""), BIN / "libhermes_adapter_webhook.so", "--sample", sample)
    assert (code, report["verdict"]) == (0, "certified")
    for tried in report["isolations"]:
        verdicts = {case["id"]: case["verdict"] for case in tried["cases"]}
        assert "failed" not in verdicts.values(), verdicts
        for case in ("inbound-is-one-event", "repeated-inbound-is-one-event-id", "malformed-news-is-survived", "cut-link-comes-back",
                     "connects-again", "nothing-tells-a-secret"):
            assert verdicts[case] == "passed", (case, verdicts)


@pytest.mark.parametrize("name", ["api_server", "echo", "webchat"])
def test_an_adapter_without_a_stage_is_certified_for_its_contract(host, name):
    sample = ADAPTERS / name / "testdata/certify.toml"
    code, report = certify(host(""), BIN / f"libhermes_adapter_{name}.so", *(["--sample", sample] if sample.exists() else []))
    assert (code, report["verdict"]) == (0, "certified: contract only")
    skipped = {case["detail"] for tried in report["isolations"] for case in tried["cases"] if case["verdict"] == "skipped"}
    assert skipped == {"no stage"}


def test_a_stage_that_does_not_play_and_a_file_that_is_none_are_said_so(host):
    one = host("")
    broken = one.folder / "certify.toml"
    broken.write_text('stage = ["true"]\n[config]\ntoken = "1:x"\n')
    nothing = one.folder / "nothing.so"
    nothing.write_bytes(b"no library")
    for arguments, words in (
        ((BIN / "libhermes_adapter_telegram.so", "--sample", broken, "--isolation", "process"), "the platform simulator failed"),
        ((nothing, "--isolation", "in-process"), "nothing.so"),
    ):
        refused = one.cli("adapter", "certify", *arguments, check=False)
        assert refused.returncode == 1 and words in refused.stderr and refused.stdout == "", refused
    wrong = one.cli("adapter", "certify", nothing, "--sample", one.folder / "gone.toml", check=False)
    assert wrong.returncode == 1 and "gone.toml" in wrong.stderr


def test_a_library_whose_secret_is_no_key_of_its_configuration_is_refused_by_everybody(host):
    one = host('[adapter.telegram]\ntoken = { env = "TOKEN" }\n', env={"TOKEN": "1:abc"})
    built = (BIN / "libhermes_adapter_telegram.so").read_bytes()
    misspelt = one.folder / "misspelt.so"
    misspelt.write_bytes(built.replace(b'"secrets":["token"', b'"secrets":["tokne"'))
    # The check creates the instance in the same steps as a starting host.
    for command in (["certify"], ["add"], ["certify", "--here", "--isolation", "process"]):
        refused = one.cli("adapter", *command, misspelt, check=False)
        assert refused.returncode == 1 and "`tokne` in `secrets`" in refused.stderr and refused.stdout == "", refused
    assert not (one.folder / "plugins").exists(), "nothing was copied"
