"""The manifests: of the form that Kubernetes takes, confined, and the broker's own port closed.

No cluster is asked: that the network's plug-in carries a policy out, and what the kubelet does, is not seen here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.app import DRAIN_S
from tests.brokers import mode

from .files import KUBERNETES, read_yaml

FORMS = ["gateway", "sidecar"]
VERSIONS = ["1.29", "1.34", "1.37"]
MANIFESTS = sorted(
    path
    for form in FORMS
    for path in (KUBERNETES / form).glob("*.yaml")
    if path.name not in {"kustomization.yaml", "veil.yaml"}
)


def objects(form: str) -> list[dict[str, Any]]:
    return [each for path in MANIFESTS if path.parent.name == form for each in read_yaml(path)]


def pods(form: str) -> Iterator[dict[str, Any]]:
    for each in objects(form):
        if each["kind"] in {"Deployment", "StatefulSet"}:
            yield each["spec"]["template"]["spec"]


def containers(form: str) -> Iterator[dict[str, Any]]:
    for pod in pods(form):
        yield from pod.get("initContainers", [])
        yield from pod["containers"]


def the_veil(form: str) -> dict[str, Any]:
    return next(each for each in containers(form) if each["name"] == "veil")


def validated(path: Path) -> subprocess.CompletedProcess[bytes]:
    versions = [part for version in VERSIONS for part in ("-k", version)]
    command = [sys.executable, "-W", "ignore", "-m", "kubernetes_validate", "--strict", *versions, str(path)]
    return subprocess.run(command, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_manifest_is_of_the_form_of_each_version_of_kubernetes(path: Path) -> None:
    done = validated(path)

    assert done.returncode == 0, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_a_manifest_with_a_key_that_does_not_exist_is_not(tmp_path: Path) -> None:
    text = (KUBERNETES / "gateway" / "deployment.yaml").read_text()
    (tmp_path / "wrong.yaml").write_text(text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))

    assert validated(tmp_path / "wrong.yaml").returncode != 0


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_kustomize_puts_each_form_together(form: str, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        mode.absent("kubectl", "https://kubernetes.io/docs/tasks/tools/ (what each file holds is tested without it)")
    done = subprocess.run(["kubectl", "kustomize", str(KUBERNETES / form)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    (tmp_path / "all.yaml").write_bytes(done.stdout)
    built = read_yaml(tmp_path / "all.yaml")
    rules = [each for each in built if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "veil-rules"]

    assert validated(tmp_path / "all.yaml").returncode == 0
    assert {each["metadata"]["namespace"] for each in built} == {"shop"}
    assert [set(each["data"]) for each in rules] == [{"customers.yaml", "access.yaml"}]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_kustomization_names_is_there(form: str) -> None:
    (told,) = read_yaml(KUBERNETES / form / "kustomization.yaml")
    files = [name for each in told["configMapGenerator"] for name in each["files"]]

    assert [name for name in (*told["resources"], *files) if not (KUBERNETES / form / name).exists()] == []
    assert {path.name for path in MANIFESTS if path.parent.name == form} <= set(told["resources"])


@pytest.mark.parametrize("form", FORMS)
def test_every_container_is_confined_as_the_restricted_standard_wants_it_and_more(form: str) -> None:
    for pod in pods(form):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
    for each in containers(form):
        context = each["securityContext"]
        assert context["allowPrivilegeEscalation"] is False, each["name"]
        assert context["readOnlyRootFilesystem"] is True, each["name"]
        assert context["capabilities"] == {"drop": ["ALL"]}, each["name"]
        assert not [port for port in each["ports"] if "hostPort" in port]
        assert "memory" in each["resources"]["limits"]


@pytest.mark.parametrize("form", FORMS)
def test_a_service_named_veil_does_not_become_a_setting(form: str) -> None:
    assert [pod["enableServiceLinks"] for pod in pods(form)] == [False]


@pytest.mark.parametrize("form", FORMS)
def test_a_pod_is_given_the_time_to_drain(form: str) -> None:
    (pod,) = pods(form)
    before = the_veil(form).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)

    assert pod["terminationGracePeriodSeconds"] >= before + DRAIN_S + 5


@pytest.mark.parametrize("form", FORMS)
def test_rules_are_mounted_as_a_folder_so_that_a_change_is_seen(form: str) -> None:
    mounts = {each["name"]: each for each in the_veil(form)["volumeMounts"]}

    assert mounts["rules"] == {"name": "rules", "mountPath": "/etc/veil/rules.d", "readOnly": True}
    assert {each["mountPath"] for each in mounts.values() if not each.get("readOnly")} == {"/var/lib/veil", "/tmp"}


@pytest.mark.parametrize("form", FORMS)
def test_readiness_is_readyz_and_life_is_livez(form: str) -> None:
    veil = the_veil(form)

    assert veil["startupProbe"]["httpGet"] == veil["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    assert veil["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}


def test_the_sidecar_is_an_init_container_that_goes_on_and_the_console_speaks_to_it_alone() -> None:
    (pod,) = pods("sidecar")
    (config,) = read_yaml(KUBERNETES / "sidecar" / "veil.yaml")
    (console,) = pod["containers"]
    address = {each["name"]: each.get("value") for each in console["env"]}

    assert [(each["name"], each["restartPolicy"]) for each in pod["initContainers"]] == [("veil", "Always")]
    assert config["connections"][0]["listeners"][0]["listen"] == f"{address['REDIS_HOST']}:{address['REDIS_PORT']}"


@pytest.mark.parametrize("form", FORMS)
def test_the_brokers_port_takes_pods_with_a_veil_and_no_others(form: str) -> None:
    policies = [each["spec"] for each in objects(form) if each["kind"] == "NetworkPolicy"]
    (closing,) = [each for each in policies if each["podSelector"] == {"matchLabels": {"app": "redis"}}]
    template = next(each["spec"]["template"] for each in objects(form) if each["kind"] in {"Deployment", "StatefulSet"})

    assert closing["policyTypes"] == ["Ingress"]
    (allowed,) = closing["ingress"]
    (source,) = allowed["from"]
    assert set(source) == {"podSelector"}
    wanted = source["podSelector"]["matchLabels"]
    assert wanted
    assert wanted.items() <= template["metadata"]["labels"].items()
    assert allowed["ports"] == [{"protocol": "TCP", "port": 6379}]


@pytest.mark.parametrize("form", FORMS)
def test_no_password_stands_in_a_manifest(form: str) -> None:
    assert [each["metadata"]["name"] for each in objects(form) if each["kind"] == "Secret"] == []
    for container in containers(form):
        for each in container.get("env", []):
            assert "PASSWORD" not in each["name"] or "secretKeyRef" in each["valueFrom"]
