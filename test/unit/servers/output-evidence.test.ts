import { expect, test } from 'vitest'
import { readEvidence } from '../../../src/agent-core/servers/output-evidence.ts'
import { OutputRoom } from './output-room.ts'
import { ServerRoom } from './server-room.ts'

test('the first error of a start is found in what was cut off, and that of an earlier attempt is none', async () => {
  await using room = await OutputRoom.create({ bytes: 1_000, count: 3 })
  await room.write('error: port taken, an attempt before\n')
  const { to: offset } = (await room.log.extent()) ?? { to: 0 }
  await room.write(`error: this is why\n${'noise\n'.repeat(150)}`)
  await room.look()
  await room.write('error: and this follows from it\n')
  expect(await readEvidence(room.log, { offset, outOf: 'start' })).toMatchObject({ firstError: 'error: this is why' })
})

test('where the beginning of a run is no longer kept, the first error of what is left counts', async () => {
  await using room = await OutputRoom.create({ bytes: 1_000, count: 1 })
  await room.write('error: the real reason\n')
  for (let n = 0; n < 3; n++) {
    await room.write('noise\n'.repeat(160))
    await room.look()
  }
  await room.write('error: all that is left\n')
  const { firstError, tail } = await readEvidence(room.log, { offset: 0, outOf: 'start' })
  expect([firstError, tail.at(-1), tail.length]).toEqual(['error: all that is left', 'error: all that is left', 161])
})

test('megabytes of garbage, long lines and empty ones take no long time, and the error among them is found', async () => {
  await using room = await OutputRoom.create({ bytes: 100_000_000, count: 1 })
  const garbage = Buffer.from(
    Array.from({ length: 500_000 }, (_, n) => (n * 7_919 + (n >> 3)) % 256).filter((byte) => byte !== 10),
  )
  await room.write(Buffer.concat([garbage, Buffer.from(`\nerror: found ${'\u001b['.repeat(400_000)}\n`)]))
  await room.write('\n'.repeat(1_000_000))
  // Of the CPU, since a machine that does something else besides makes any wait longer.
  const before = process.cpuUsage()
  const { firstError } = await readEvidence(room.log, { offset: 0, outOf: 'start' })
  const { user, system } = process.cpuUsage(before)
  expect([firstError?.startsWith('error: found'), user + system < 5_000_000]).toEqual([true, true])
})

test('a server that fails after it wrote more than is kept still says why', async () => {
  await using room = await ServerRoom.create({ outputLimits: () => ({ bytes: 50_000, count: 2 }) })
  room.start({
    noise: { lines: 20, lineBytes: 500, everyMs: 5 },
    loadMs: 60_000,
    crashAfterMs: 1_500,
    crash: { message: 'llama_model_load: error loading model: no' },
  })
  expect(await room.settled()).toMatchObject({
    firstError: 'llama_model_load: error loading model: no',
    outOf: 'start',
  })
})
