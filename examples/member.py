#!/usr/bin/python3
"""A member of a consumer group in Python (psycopg 3): for work outside the database.

Tells customers about their orders, each at least once: a record is committed when it has
been handled, so what a member was at when it died is done again by the next owner of the
partition.  Start as many as you like, up to one a partition.  The connection is that of
PGHOST, PGDATABASE and so on, or of the argument; it may go through a pooler.

    SELECT stream.create_stream('orders', partitions => 4);
    SELECT stream.create_consumer_group('orders', 'mails');
"""
import logging
import random
import signal
import sys
import time
import uuid

import psycopg
from psycopg.rows import namedtuple_row

STREAM, GROUP = "orders", "mails"
BATCH = 100  # what is handled well within the session timeout and max_poll_interval
SESSION_TIMEOUT, HEARTBEAT = 45, 5  # seconds
TRIES = 3
DSN = sys.argv[1] if len(sys.argv) > 1 else ""

FENCED = "ST001"  # timed out, or somebody else has joined as this member
NOT_OWNER = "ST002"  # of a partition


def handle(record):
    """The effect.  It may come twice for a record, so let it not matter."""
    print(f"mail to {record.key}: {record.value}", flush=True)


class Member:
    def __init__(self):
        self.conn = None
        self.member_id = str(uuid.uuid4())
        self.forget()

    def forget(self):
        self.epoch = 0
        self.owned = set()  # partitions
        self.done = {}  # position of the last record handled in each

    def call(self, query, *args):
        """Connects if necessary; repeats until there is an answer, as every call allows."""
        delay = 0.1
        while True:
            try:
                if self.conn is None:
                    # no prepared statements: poolers give each transaction another session
                    self.conn = psycopg.connect(
                        DSN, autocommit=True, row_factory=namedtuple_row, prepare_threshold=None
                    )
                return self.conn.execute(query, args).fetchall()
            except psycopg.OperationalError as error:
                logging.warning("next try in %.1f s: %s", delay, error)
                if self.conn is not None:
                    self.conn.close()
                self.conn = None
                if stopping:
                    raise
                time.sleep(delay * (1 + random.random()))
                delay = min(delay * 2, 10)

    def join(self):
        self.forget()
        self.take(*self.call(
            "SELECT * FROM stream.join_group(%s, %s, %s, session_timeout => %s)",
            STREAM, GROUP, self.member_id, f"{SESSION_TIMEOUT} s",
        ))

    def heartbeat(self):
        self.take(*self.call(
            "SELECT * FROM stream.heartbeat(%s, %s, %s, %s, %s::int[])",
            STREAM, GROUP, self.member_id, self.epoch, list(self.owned),
        ))

    def take(self, answer):
        """Lets go of partitions after committing what was done, and takes new ones."""
        self.beaten = time.monotonic()
        self.epoch = answer.member_epoch
        if answer.revoking:
            self.commit(p for p in answer.revoking if p in self.done)
            for p in answer.revoking:
                self.done.pop(p, None)
        self.owned = set(answer.assigned)
        if answer.revoking:
            self.heartbeat()

    def commit(self, partitions):
        self.call(
            "SELECT stream.commit_offsets(%s, %s, %s, %s, %s::stream.record_position[])",
            STREAM, GROUP, self.member_id, self.epoch, [self.done[p] for p in partitions],
        )

    def work(self):
        """One round: commits what was handled before, polls, handles; waits if there is nothing."""
        records = self.call(
            "SELECT * FROM stream.poll(%s, %s, %s, %s, after => %s::stream.record_position[],"
            " commit => %s::stream.record_position[], max_records => %s)",
            STREAM, GROUP, self.member_id, self.epoch, list(self.done.values()), list(self.done.values()), BATCH,
        )
        for record in records:
            if record.partition not in self.owned:
                continue  # it went to another member meanwhile
            self.handle(record)
            self.done[record.partition] = f"{record.partition}:{record.record_offset}"
            if stopping:
                return
            if time.monotonic() > self.beaten + HEARTBEAT:
                self.heartbeat()
        if not records:
            self.call(
                "SELECT stream.wait_for_records(%s, %s, %s, %s, %s::stream.record_position[])",
                STREAM, GROUP, f"{HEARTBEAT} s", self.member_id, list(self.done.values()),
            )
            self.heartbeat()

    def handle(self, record):
        for attempt in range(1, TRIES + 1):
            try:
                return handle(record)
            except Exception:
                logging.exception("record %s:%s, try %s", record.partition, record.record_offset, attempt)
                time.sleep(0.1)
        # Passed.  Note it where somebody looks.
        logging.error("record %s:%s is passed", record.partition, record.record_offset)

    def run(self):
        self.join()
        while not stopping:
            try:
                self.work()
            except psycopg.DatabaseError as error:
                # Others own what was ours, and start from what is committed.
                if error.diag.sqlstate == FENCED:
                    self.join()
                elif error.diag.sqlstate == NOT_OWNER:
                    self.done = {}
                else:
                    raise
        self.call(
            "SELECT stream.leave_group(%s, %s, %s, %s, %s::stream.record_position[])",
            STREAM, GROUP, self.member_id, self.epoch, list(self.done.values()),
        )


stopping = False


def stop(signum, frame):
    """Ends the member after the record in hand, with a commit; it waits 5 s at most."""
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
Member().run()
