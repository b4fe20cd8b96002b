"""A certificate as one self-contained HTML page."""

from __future__ import annotations

from html import escape
from textwrap import dedent

from spectheory.certify import Certificate, StepCertificate
from spectheory.core.provenance import Provenance
from spectheory.report.page import figure_html, shell, sources_html
from spectheory.report.wealth import wealth_figure


def certificate_page(name: str, certificate: Certificate | StepCertificate) -> str:
    """One page with the verdict and the text of the certificate, and for a black-box test the figure of its wealth."""
    verdict = certificate.verdict
    figure = [figure_html(wealth_figure(certificate))] if isinstance(certificate, StepCertificate) else []
    return shell(
        f"Certificate of {name}",
        f'<p class="lead"><b>{verdict.name}.</b> {escape(name)}: {escape(verdict.value)}.</p>',
        *figure,
        f"<pre>{escape(dedent(chr(10).join(certificate.lines()[1:])))}</pre>",
        sources_html({"certificate": Provenance.now("spectheory certify")}),
    )
