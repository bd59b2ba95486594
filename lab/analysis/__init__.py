"""From a run folder to results.json, with Spark. Needs no network, no engine and no root."""
