"""AWS_MSK_IAM: tokens that are signed with the AWS credentials of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from tidegate.broker.mechanism import Mechanism, jaas
from tidegate.broker.oauth import TokenProvider
from tidegate.core.java_client import PrivateFiles
from tidegate.errors import ConfigurationError

_CLASSES = "software.amazon.msk.auth.iam"
_SIGNER = ("aws_msk_iam_sasl_signer", "MSKAuthTokenProvider")  # its package, a module of it
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:")


class AwsIam(Mechanism):
    """The login of Amazon's managed Kafka."""

    name = "AWS_MSK_IAM"
    check = "the AWS credentials of this machine, and their policy"

    @property
    def token_mechanism(self) -> str | None:
        return None

    def complaints(self, given: Mapping[str, Any]) -> Iterator[str]:
        if str(given.get("security.protocol", "")).upper() != "SASL_SSL":
            yield "sasl.mechanism: AWS_MSK_IAM needs security.protocol SASL_SSL"

    def unusable(self, given: Mapping[str, Any]) -> Iterator[str]:
        if not _region(given):
            yield "sasl.mechanism: AWS_MSK_IAM: set AWS_REGION: no address names the region"

    def identity(self, given: Mapping[str, Any]) -> str:
        del given
        return "with the AWS credentials of this machine"

    def session(self, given: Mapping[str, str], cluster: str) -> TokenProvider:
        return _SignedTokens(given, cluster)

    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        del given, files, cluster
        return {
            "kafka.sasl.jaas.config": jaas(f"{_CLASSES}.IAMLoginModule", {}),
            "kafka.sasl.client.callback.handler.class": f"{_CLASSES}.IAMClientCallbackHandler",
        }


class _SignedTokens(TokenProvider):
    """Tokens that Amazon's own package signs."""

    # kafka-python's own mechanism is not used: of the variables for the region it reads
    # `AWS_DEFAULT_REGION` alone, and without a region it seems that a broker does not answer.
    def obtain_token(self) -> tuple[str, float]:
        region = _region(self.given) or ""
        package, module = _SIGNER
        if find_spec(package) is None:
            raise ConfigurationError(
                f"{self.cluster}: sasl.mechanism AWS_MSK_IAM needs the package"
                " aws-msk-iam-sasl-signer-python beside Tidegate: pip install 'tidegate[msk]'"
            )
        signed = self.call(f"{package}.{module}", "generate_auth_token", "sasl.mechanism", region)
        return self.check_token(signed[0], "AWS_MSK_IAM"), 0.0


def _region(given: Mapping[str, Any]) -> str | None:
    if named := _HOST.search(str(given.get("bootstrap.servers"))):
        return named[1]
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
