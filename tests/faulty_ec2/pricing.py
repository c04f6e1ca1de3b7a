"""AWS's prices on loopback: the Price List's API, each region's public file of the same, and spot prices.

    with PriceList(machine("g5.xlarge", 1.006, gpu="1"), disk(0.08)) as prices:
        monkeypatch.setenv("AWS_ENDPOINT_URL", prices.url)
        prices.spot.append(Spot(name="g5.xlarge", zone="us-east-1a", usd=0.4, at="2026-12-02T10:00:00Z"))
        ...
        prices.refusals["GetProducts"] = "AccessDeniedException"

As AWS does, it lists each machine many times: with other systems, tenancies, software and kinds of capacity, which have
prices of their own, and reserved ones at 0. Whoever filters too little sees several prices of one type.
"""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

COLUMNS = {
    "instanceType": "Instance Type",
    "vcpu": "vCPU",
    "memory": "Memory",
    "gpu": "GPU",
    "operatingSystem": "Operating System",
    "tenancy": "Tenancy",
    "preInstalledSw": "Pre Installed S/W",
    "capacitystatus": "CapacityStatus",
    "marketoption": "MarketOption",
    "volumeApiName": "Volume API Name",
    "regionCode": "Region Code",
}
"""Attributes and the columns of the public file that hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One row of the list.

    Attributes:
        family: its product family.
        attributes: what it says of itself.
        usd: its price; several dimensions of one product where there are several.
        unit: per what.
        currency: of the price.
        term: `OnDemand` or `Reserved`.
    """

    family: str
    attributes: Mapping[str, str]
    usd: tuple[str, ...]
    unit: str
    currency: str = "USD"
    term: str = "OnDemand"

    def text(self, sku: int) -> str:
        """As the API says it: a text that holds JSON."""
        dimensions = {
            f"{sku}.T.{number}": {"unit": self.unit, "pricePerUnit": {self.currency: price}}
            for number, price in enumerate(self.usd)
        }
        terms = {self.term: {f"{sku}.T": {"priceDimensions": dimensions}}}
        product = {"productFamily": self.family, "attributes": dict(self.attributes), "sku": str(sku)}
        return json.dumps({"product": product, "serviceCode": "AmazonEC2", "terms": terms})

    def has(self, name: str) -> str | None:
        """What a filter sees."""
        return self.family if name == "productFamily" else self.attributes.get(name)


def machine(
    name: str, usd: float, *, region: str = "us-east-1", gpu: str = "", vcpu: int = 4, memory: str = "16 GiB"
) -> list[Product]:
    """A plain Linux machine on demand, among what else is sold under its name."""
    plain = Product(
        family="Compute Instance",
        attributes={
            "instanceType": name,
            "regionCode": region,
            "vcpu": str(vcpu),
            "memory": memory,
            **({"gpu": gpu} if gpu else {}),
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
        },
        usd=("0.0000000000", f"{usd:.10f}"),
        unit="Hrs",
    )
    others = (
        {"operatingSystem": "Windows"},
        {"operatingSystem": "SUSE"},
        {"tenancy": "Dedicated"},
        {"preInstalledSw": "SQL Ent"},
        {"capacitystatus": "UnusedCapacityReservation"},
        {"capacitystatus": "AllocatedCapacityReservation"},
        {"marketoption": "CapacityBlock"},
    )
    dear = [
        replace(plain, attributes={**plain.attributes, **other}, usd=(f"{usd * (number + 2):.10f}",))
        for number, other in enumerate(others)
    ]
    return [*dear, plain, replace(plain, usd=("0.0000000000",), term="Reserved")]


def disk(usd: float, *, region: str = "us-east-1") -> list[Product]:
    """A gp3 volume by the month, among other volumes and what else a gp3 volume may be charged for."""
    volume = Product(
        family="Storage", attributes={"regionCode": region, "volumeApiName": "gp3"}, usd=(f"{usd:.10f}",), unit="GB-Mo"
    )
    return [
        replace(volume, attributes={**volume.attributes, "volumeApiName": "io2"}, usd=("0.1250000000",)),
        replace(volume, family="System Operation", usd=("0.0050000000",), unit="IOPS-Mo"),
        volume,
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One row of the history of spot prices."""

    name: str
    zone: str
    usd: float
    at: str


class PriceList:
    """The server; up within its `with` block.

    Attributes:
        products: all rows of the list.
        spot: all rows of the history.
        refusals: error codes with which calls are answered, by their action.
        asked: what the list was asked for, call by call.
        history: what the history was asked for, call by call.
        files: regions whose public file was read.
    """

    def __init__(self, *products: Sequence[Product], page: int = 3) -> None:
        self.products = tuple(product for group in products for product in group)
        self.page = page
        self.spot: list[Spot] = []
        self.refusals: dict[str, str] = {}
        self.asked: list[dict[str, Any]] = []
        self.history: list[dict[str, str]] = []
        self.files: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> PriceList:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it is; the files of regions are below."""
        return f"http://127.0.0.1:{self._server.server_port}"


def _handler(world: PriceList) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts":
                self._send(*_answer(world, json.loads(body)), "application/x-amz-json-1.1")
            else:
                self._send(*_history(world, dict(parse_qsl(body.decode()))), "text/xml")

        def do_GET(self) -> None:
            region = self.path.strip("/").partition("/")[0]
            rows = [product for product in world.products if product.attributes["regionCode"] == region]
            world.files.append(region)
            self._send(200 if rows else 404, _file(rows), "text/csv")

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def _send(self, status: int, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _answer(world: PriceList, asked: dict[str, Any]) -> tuple[int, str]:
    world.asked.append(asked)
    refusal = world.refusals.get("GetProducts")
    if refusal:
        return 400, json.dumps({"__type": refusal, "Message": "as the test wants it"})
    found = [
        product.text(sku)
        for sku, product in enumerate(world.products)
        if all(
            each["Type"] == "TERM_MATCH" and product.has(each["Field"]) == each["Value"] for each in asked["Filters"]
        )
    ]
    start = int(asked.get("NextToken", "0"))
    end = start + world.page
    more = {"NextToken": str(end)} if end < len(found) else {}
    return 200, json.dumps({"FormatVersion": "aws_v1", "PriceList": found[start:end], **more})


def _history(world: PriceList, asked: dict[str, str]) -> tuple[int, str]:
    """Rows page by page, in no good order; which of them are older than `StartTime` is not looked at."""
    world.history.append(asked)
    refusal = world.refusals.get("DescribeSpotPriceHistory")
    if refusal:
        return 403, (
            f"<Response><Errors><Error><Code>{refusal}</Code><Message>as the test wants it</Message></Error></Errors>"
            "<RequestID>0</RequestID></Response>"
        )
    names = {value for key, value in asked.items() if key.startswith("InstanceType.")}
    found = [row for row in world.spot if not names or row.name in names]
    start = int(asked.get("NextToken", "0"))
    end = start + world.page
    items = "".join(
        f"<item><instanceType>{row.name}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{row.usd:.6f}</spotPrice><timestamp>{row.at}</timestamp>"
        f"<availabilityZone>{row.zone}</availabilityZone></item>"
        for row in found[start:end]
    )
    more = f"<nextToken>{end}</nextToken>" if end < len(found) else "<nextToken/>"
    return 200, (
        '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>0</requestId>'
        f"<spotPriceHistorySet>{items}</spotPriceHistorySet>{more}</DescribeSpotPriceHistoryResponse>"
    )


def _file(products: Sequence[Product]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL)
    for name in ("FormatVersion", "Disclaimer", "Publication Date", "Version", "OfferCode"):
        rows.writerow([name, "..."])
    rows.writerow(["SKU", "TermType", "Unit", "PricePerUnit", "Currency", "Product Family", *COLUMNS.values()])
    rows.writerows(_lines(products))
    return text.getvalue()


def _lines(products: Sequence[Product]) -> Iterator[list[str]]:
    for sku, product in enumerate(products):
        attributes = [product.attributes.get(name, "") for name in COLUMNS]
        for price in product.usd:
            yield [str(sku), product.term, product.unit, price, product.currency, product.family, *attributes]
