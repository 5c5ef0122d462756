#!/usr/bin/python3
"""A worker in Python (psycopg 3): ships orders, each exactly once.

Start as many as you like; they share the partitions.  The connection is that of PGHOST,
PGDATABASE and so on, or of the argument.

    SELECT stream.create_stream('orders', partitions => 4);
    SELECT stream.create_consumer_group('orders', 'shipping');
    CREATE TABLE shipments (order_id bigint NOT NULL, shipped_at timestamptz NOT NULL DEFAULT now());
"""
import contextlib
import logging
import random
import signal
import sys
import time
from collections import Counter

import psycopg
from psycopg.rows import namedtuple_row

STREAM, GROUP = "orders", "shipping"
BATCH = 1000
TRIES = 3
DSN = sys.argv[1] if len(sys.argv) > 1 else ""

busy = stopping = False


def handle(conn, record):
    """The effect: whatever it does with conn commits together with the offset."""
    conn.execute("INSERT INTO shipments (order_id) VALUES (%s)", [record.value["id"]])


def stop(signum, frame):
    """Ends the worker, after the transaction if it is in one."""
    global stopping
    stopping = True
    if not busy:
        sys.exit()


def work(conn):
    global busy
    batch = BATCH
    tries = Counter()  # of records that fail
    while not stopping:
        conn.execute("SELECT stream.wait_for_records(%s, %s)", [STREAM, GROUP])
        position = None  # of the record in hand
        busy = True
        try:
            with conn.transaction():
                for record in conn.execute(
                    "SELECT * FROM stream.consume(%s, %s, max_records => %s)", [STREAM, GROUP, batch]
                ):
                    position = f"{record.partition}:{record.record_offset}"
                    handle(conn, record)
            batch = min(BATCH, batch * 2)
        except psycopg.OperationalError:
            # A deadlock, a full disk: nothing that skipping a record would mend.
            if conn.closed:
                raise
            logging.exception("trying again")
            time.sleep(random.random())
        except Exception as error:
            # The records are given back.  Take them one by one, to find the one that fails.
            if position is None:
                raise
            if batch > 1:
                batch = 1
                continue
            tries[position] += 1
            logging.warning("record %s failed: %s", position, error)
            if tries[position] >= TRIES:
                skip(conn, position, str(error))
            time.sleep(0.1)
        finally:
            busy = False


def skip(conn, position, reason):
    """Passes a record; it is kept in stream.dead_letters."""
    try:
        conn.execute("SELECT stream.skip_record(%s, %s, %s, %s)", [STREAM, GROUP, position, reason])
    except (psycopg.errors.ObjectInUse, psycopg.errors.ObjectNotInPrerequisiteState):
        pass  # another worker is at it, or was


def main():
    delay = 0.1
    while not stopping:
        try:
            conn = psycopg.connect(
                DSN, autocommit=True, row_factory=namedtuple_row, application_name="shipping worker"
            )
            delay = 0.1
            with contextlib.closing(conn):
                work(conn)
        except psycopg.OperationalError as error:
            logging.warning("connection lost, next try in %.1f s: %s", delay, error)
            time.sleep(delay * (1 + random.random()))
            delay = min(delay * 2, 30)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
main()
