import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  bootedAt,
  type PartialState,
  readPartialState,
  writePartialState,
} from '../../../../src/agent-core/models/download/partial-file.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const now = Date.UTC(2026, 0, 2)

/** So many bytes are there, as this boot of the machine knows or an earlier one. */
const recordOf = (bytes: number, bootedAgo = 0): PartialState => ({
  version: 1,
  urlSha256: 'a'.repeat(64),
  wanted: {},
  remote: {},
  ranges: [[0, bytes]],
  prefix: { bytes: 0, sha256: 'b'.repeat(64) },
  bootedAt: bootedAt(now) - bootedAgo,
})

test.each<[string, { recent?: PartialState; durable?: PartialState }, number | undefined]>([
  ['the recent one where it knows of more', { recent: recordOf(20), durable: recordOf(10) }, 20],
  ['the durable one where it knows of as much', { recent: recordOf(10), durable: recordOf(30) }, 30],
  ['the durable one after a restart of the machine', { recent: recordOf(20, 60_000), durable: recordOf(10) }, 10],
  ['none where a restart of the machine leaves only a recent one', { recent: recordOf(20, 60_000) }, undefined],
  ['the recent one although the clock was corrected a little', { recent: recordOf(20, 10_000) }, 20],
  ['the durable one of an earlier boot, since it was synced', { durable: recordOf(10, 60_000) }, 10],
])('of two records of a partial file is believed %s', async (_, records, bytes) => {
  await using folder = await temporaryFolder()
  const partial = join(folder.dir, 'model.gguf.partial')
  if (records.recent) await writePartialState(partial, records.recent, 'recent')
  if (records.durable) await writePartialState(partial, records.durable, 'durable')
  expect((await readPartialState(partial, now))?.ranges).toEqual(bytes === undefined ? undefined : [[0, bytes]])
})
