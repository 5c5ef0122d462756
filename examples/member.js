#!/usr/bin/env node
// A member of a consumer group in Node (node-postgres): for work outside the database.
//
// Tells customers about their orders, each at least once: a record is committed when it has
// been handled, so what a member was at when it died is done again by the next owner of the
// partition.  Start as many as you like, up to one a partition.  The connection is that of
// PGHOST, PGDATABASE and so on; it may go through a pooler.
//
//     SELECT stream.create_stream('orders', partitions => 4);
//     SELECT stream.create_consumer_group('orders', 'mails');
'use strict';
const { randomUUID } = require('crypto');
const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

const STREAM = 'orders', GROUP = 'mails';
const BATCH = 100;                              // what is handled well within the session timeout and max_poll_interval
const SESSION_TIMEOUT = 45, HEARTBEAT = 5;      // seconds
const TRIES = 3;

const FENCED = 'ST001';                         // timed out, or somebody else has joined as this member
const NOT_OWNER = 'ST002';                      // of a partition

let stopping = false;

// The effect.  It may come twice for a record, so let it not matter.
async function handle(record) {
    console.log(`mail to ${record.key}: ${JSON.stringify(record.value)}`);
}

// What another try may mend: lost connections, which mostly have no code, and the like.
function isTemporary(error) {
    return error.code === undefined || /^(08|40|53|55|57|58)...$|^E[A-Z]+$/.test(error.code);
}

class Member {
    client = null;
    memberId = randomUUID();

    forget() {
        this.epoch = 0;
        this.owned = new Set();                 // partitions
        this.done = new Map();                  // position of the last record handled in each
    }

    // Connects if necessary; repeats until there is an answer, as every call allows.
    async call(query, ...args) {
        for (let delay = 100; ; delay = Math.min(delay * 2, 10000)) {
            try {
                if (this.client === null) {
                    this.client = new Client();
                    this.client.on('error', () => {});      // the query that runs fails as well
                    await this.client.connect();
                }
                return (await this.client.query(query, args)).rows;
            } catch (error) {
                if (!isTemporary(error))
                    throw error;
                this.client.end().catch(() => {});
                this.client = null;
                if (stopping)
                    throw error;
                console.warn(`next try in ${delay} ms: ${error.message}`);
                await sleep(delay * (1 + Math.random()));
            }
        }
    }

    async join() {
        this.forget();
        await this.take(await this.call(
            'SELECT * FROM stream.join_group($1, $2, $3, session_timeout => $4)',
            STREAM, GROUP, this.memberId, `${SESSION_TIMEOUT} s`));
    }

    async heartbeat() {
        await this.take(await this.call(
            'SELECT * FROM stream.heartbeat($1, $2, $3, $4, $5::int[])',
            STREAM, GROUP, this.memberId, this.epoch, [...this.owned]));
    }

    // Lets go of partitions after committing what was done, and takes new ones.
    async take([answer]) {
        this.beaten = performance.now();
        this.epoch = answer.member_epoch;
        if (answer.revoking.length > 0) {
            await this.commit(answer.revoking.filter(p => this.done.has(p)));
            for (const partition of answer.revoking)
                this.done.delete(partition);
        }
        this.owned = new Set(answer.assigned);
        if (answer.revoking.length > 0)
            await this.heartbeat();
    }

    async commit(partitions) {
        await this.call(
            'SELECT stream.commit_offsets($1, $2, $3, $4, $5::stream.record_position[])',
            STREAM, GROUP, this.memberId, this.epoch, partitions.map(p => this.done.get(p)));
    }

    // One round: commits what was handled before, polls, handles; waits if there is nothing.
    async work() {
        const records = await this.call(
            'SELECT * FROM stream.poll($1, $2, $3, $4, after => $5::stream.record_position[],' +
            ' commit => $5::stream.record_position[], max_records => $6)',
            STREAM, GROUP, this.memberId, this.epoch, [...this.done.values()], BATCH);
        for (const record of records) {
            if (!this.owned.has(record.partition))
                continue;                       // it went to another member meanwhile
            await this.handle(record);
            this.done.set(record.partition, `${record.partition}:${record.record_offset}`);
            if (stopping)
                return;
            if (performance.now() > this.beaten + HEARTBEAT * 1000)
                await this.heartbeat();
        }
        if (records.length === 0) {
            await this.call(
                'SELECT stream.wait_for_records($1, $2, $3, $4, $5::stream.record_position[])',
                STREAM, GROUP, `${HEARTBEAT} s`, this.memberId, [...this.done.values()]);
            await this.heartbeat();
        }
    }

    async handle(record) {
        const position = `${record.partition}:${record.record_offset}`;
        for (let attempt = 1; attempt <= TRIES; attempt++) {
            try {
                return await handle(record);
            } catch (error) {
                console.error(`record ${position}, try ${attempt}:`, error);
                await sleep(100);
            }
        }
        // Passed.  Note it where somebody looks.
        console.error(`record ${position} is passed`);
    }

    async run() {
        await this.join();
        while (!stopping) {
            try {
                await this.work();
            } catch (error) {
                // Others own what was ours, and start from what is committed.
                if (error.code === FENCED)
                    await this.join();
                else if (error.code === NOT_OWNER)
                    this.done = new Map();
                else
                    throw error;
            }
        }
        await this.call(
            'SELECT stream.leave_group($1, $2, $3, $4, $5::stream.record_position[])',
            STREAM, GROUP, this.memberId, this.epoch, [...this.done.values()]);
        await this.client.end();
    }
}

// Ends the member after the record in hand, with a commit; it waits 5 s at most.
for (const signal of ['SIGTERM', 'SIGINT'])
    process.on(signal, () => {
        stopping = true;
    });
new Member().run();
