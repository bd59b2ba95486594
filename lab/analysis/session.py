"""The Spark session of the lab: quick to start, silent, bound to this machine. Knows nothing of runs."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lab.analysis.reading.spark import register
from lab.errors import HostError, printable
from lab.model.owner import scratch

# A small heap that grows, one collector thread and the first compiler only: these jobs are short.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData"
SETTINGS = {
    "spark.app.name": "brokerlab",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# How queries are carried out: compiled to Java first, which pays for many rows only, or not.
COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def start_session(master: str = "local[*]") -> SparkSession:
    """A new session. Whatever Java prints goes to a file that only an error quotes."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise HostError("Java was not found", expected="Java 17 or 21", hint="install a JRE, or set JAVA_HOME")
    folder = _usable(scratch())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = SETTINGS | {"spark.master": master} | (LOCAL_SETTINGS if master.startswith("local") else {})
    settings |= {
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {_quoted(f'-Djava.io.tmpdir={folder}')}",
        "spark.local.dir": str(folder),
    }
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with os.fdopen(os.memfd_create("brokerlab-spark"), "w+b") as log:
        try:
            with _environment(folder):
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
                context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, OSError) as error:
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-3:]
            raise HostError(
                f"Spark did not start: {' / '.join(said) or error}",
                expected="Java 17 or 21 with the module jdk.incubator.vector",
                hint="java -version",
            ) from error
    spark = SparkSession(context)
    register(spark)
    return spark


def warm_up(spark: SparkSession) -> None:
    """Start a Python worker and load what every analysis uses, so that the first is as quick as the next."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import lab.analysis.taps  # noqa: F401  (loads NumPy and the decoder in the worker)

        yield from batches

    frame = spark.range(0, 4, 1, 1).mapInArrow(pass_on, "id long")
    frame.groupBy((F.col("id") % 2).alias("odd")).agg(F.count("*"), F.max("id")).collect()


def _usable(folder: Path) -> Path:
    if "," in str(folder):  # to Spark it separates folders
        folder.rmdir()
        raise HostError(
            "Spark cannot use a folder for temporary files with a comma in its name",
            where=printable(str(folder.parent)),
            hint="TMPDIR=/tmp",
        )
    return folder


def _quoted(option: str) -> str:
    """One option for Java, as Spark's launcher reads a line of them."""
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """What the Java process and its Python workers inherit; put back once Spark runs.

    Workers must be this interpreter with this package, wherever the command was started; and whatever they make for
    the moment must lie in one folder, so that it can be found if this process is killed.
    """
    package = str(Path(__file__).resolve().parents[2])
    ours = {
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TMPDIR": str(folder),
    }
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = usual
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
