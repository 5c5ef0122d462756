#!/usr/bin/env node
// A worker in Node (node-postgres): ships orders, each exactly once.
//
// Start as many as you like; they share the partitions.  The connection is that of PGHOST,
// PGDATABASE and so on.
//
//     SELECT stream.create_stream('orders', partitions => 4);
//     SELECT stream.create_consumer_group('orders', 'shipping');
//     CREATE TABLE shipments (order_id bigint NOT NULL, shipped_at timestamptz NOT NULL DEFAULT now());
'use strict';
const { setTimeout: sleep } = require('timers/promises');
const { Client } = require('pg');

const STREAM = 'orders', GROUP = 'shipping';
const BATCH = 1000, TRIES = 3;

let busy = false, stopping = false;

// The effect: whatever it does with client commits together with the offset.
async function handle(client, record) {
    await client.query('INSERT INTO shipments (order_id) VALUES ($1)', [record.value.id]);
}

// What skipping a record would not mend: lost connections, deadlocks and their kin,
// resources, locks, an operator, the system.
function isTemporary(error) {
    return /^(08|40|53|55|57|58)...$|^E[A-Z]+$/.test(error.code ?? '');
}

async function work(client) {
    const tries = new Map();                    // of records that fail
    let batch = BATCH;
    while (!stopping) {
        await client.query('SELECT stream.wait_for_records($1, $2)', [STREAM, GROUP]);
        let position = null;                    // of the record in hand
        busy = true;
        try {
            await client.query('BEGIN');
            const { rows } = await client.query(
                'SELECT * FROM stream.consume($1, $2, max_records => $3)', [STREAM, GROUP, batch]);
            for (const record of rows) {
                position = `${record.partition}:${record.record_offset}`;
                await handle(client, record);
            }
            await client.query('COMMIT');
            batch = Math.min(BATCH, batch * 2);
        } catch (error) {
            // Gives the records back; fails when the connection is lost.
            await client.query('ROLLBACK');
            if (isTemporary(error)) {
                console.warn(`trying again: ${error.message}`);
                await sleep(1000 * Math.random());
            } else if (position === null) {
                throw error;
            } else if (batch > 1) {
                batch = 1;                      // one by one, to find the one that fails
            } else {
                tries.set(position, (tries.get(position) ?? 0) + 1);
                console.warn(`record ${position} failed: ${error.message}`);
                if (tries.get(position) >= TRIES)
                    await skip(client, position, error.message);
                await sleep(100);
            }
        } finally {
            busy = false;
        }
    }
}

// Passes a record; it is kept in stream.dead_letters.
async function skip(client, position, reason) {
    try {
        await client.query('SELECT stream.skip_record($1, $2, $3, $4)', [STREAM, GROUP, position, reason]);
    } catch (error) {
        if (!['55006', '55000'].includes(error.code))
            throw error;                        // else another worker is at it, or was
    }
}

async function main() {
    let delay = 100;
    while (!stopping) {
        const client = new Client({ application_name: 'shipping worker' });
        client.on('error', () => {});           // the query that runs fails as well
        try {
            await client.connect();
            delay = 100;
            await work(client);
            await client.end();
        } catch (error) {
            if (error.code !== undefined && !isTemporary(error))
                throw error;                    // no such stream, no privilege ...
            console.warn(`connection lost, next try in ${delay} ms: ${error.message}`);
            client.end().catch(() => {});
            await sleep(delay * (1 + Math.random()));
            delay = Math.min(delay * 2, 30000);
        }
    }
}

// Ends the worker, after the transaction if it is in one.
for (const signal of ['SIGTERM', 'SIGINT'])
    process.on(signal, () => {
        stopping = true;
        if (!busy)
            process.exit();
    });
main();
