import fc from 'fast-check'
import { readFile, truncate } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { LineSplitter } from '../../../src/agent-core/servers/output-reader.ts'
import type { OutputCursor } from '../../../src/agent-core/servers/output.ts'
import { follow, tail, type OutputChunk } from '../../../src/agent-core/servers/output-reader.ts'
import { eventually } from '../../support/eventually.ts'
import { OutputRoom } from './output-room.ts'

const roomy = 1_000_000
const tight = 100

describe('a line', () => {
  test.each([
    ['colours are dropped', '\u001b[31mred\u001b[0m alert', 'red alert'],
    ['control characters become a space, tabs stay', 'a\u0000\u0007\u0085b\tc\r', 'a b\tc'],
    ['what is no UTF-8 becomes one mark', Buffer.from([0x61, 0xff, 0xfe, 0xc3, 0x62]), 'a\uFFFDb'],
    ['what is indented stays so', '  two', '  two'],
  ])('%s', (_, bytes, text) => {
    expect(new LineSplitter(0).push(Buffer.concat([Buffer.from(bytes), Buffer.from('\n')]))).toEqual([
      { text, offset: 0 },
    ])
  })

  test('that is long is cut and says how long it was', () => {
    const splitter = new LineSplitter(7)
    const lines = ['x'.repeat(600_000), `${'x'.repeat(400_000)}\nnext\nrest`].flatMap((part) =>
      splitter.push(Buffer.from(part)),
    )
    expect([...lines, ...splitter.flush()]).toEqual([
      { text: `${'x'.repeat(8_192)}… (1.0 MB line cut)`, offset: 7 },
      { text: 'next', offset: 1_000_008 },
      { text: 'rest', offset: 1_000_013 },
    ])
  })

  test('that never ends is given in parts, and takes no memory', () => {
    const splitter = new LineSplitter(0)
    const parts = Array.from({ length: 40 }, () => splitter.push(Buffer.alloc(1_000_000, 'x')).length)
    expect([parts.reduce((sum, one) => sum + one), splitter.offset]).toEqual([2, 34_000_000])
  })

  test('may come in any pieces', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.array(fc.nat(20)), (text, cuts) => {
        const bytes = Buffer.from(`${text}\nä\n€`)
        const [whole, pieces] = [new LineSplitter(0), new LineSplitter(0)]
        let at = 0
        const found = [...cuts, bytes.length].flatMap((length) =>
          pieces.push(bytes.subarray(at, (at = Math.min(bytes.length, at + length)))),
        )
        expect([...found, ...pieces.flush()]).toEqual([...whole.push(bytes), ...whole.flush()])
      }),
    )
  })
})

type Step =
  | { do: 'write'; bytes: number }
  | { do: 'look' }
  | { do: 'begin' }
  | { do: 'read'; max: number }
  | { do: 'readAllWhileLooking'; max: number }

const max = fc.integer({ min: 1, max: 120 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('write'), bytes: fc.integer({ min: 1, max: 150 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('look') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('begin') }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('read'), max }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('readAllWhileLooking'), max }) },
)

test('whatever is written, cut and begun anew, a reader gets each byte where it belongs, once, or is told what is missing', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      await using room = await OutputRoom.create(tight)
      await room.write('start')
      const runs: Buffer[] = [Buffer.from('start')]
      let run = 0
      let at: OutputCursor = { fileId: (await room.log.extent())?.fileId ?? '', offset: 0 }
      let written = 0
      const read = async (max: number): Promise<boolean> => {
        const found = await room.log.read(at, max)
        if (found === undefined || (found.over && found.bytes.length === 0)) {
          const current = await room.log.extent()
          run = runs.length - 1
          at = { fileId: current?.fileId ?? '', offset: 0 }
          return current !== undefined && (found !== undefined || (runs[run]?.length ?? 0) > 0)
        }
        const { bytes, offset } = found
        expect(offset).toBeGreaterThanOrEqual(at.offset)
        expect(bytes).toEqual(runs[run]?.subarray(offset, offset + bytes.length))
        at = { fileId: at.fileId, offset: offset + bytes.length }
        return bytes.length > 0
      }
      const readAll = async (max: number) => {
        while (await read(max));
      }
      for (const one of steps) {
        if (one.do === 'write') {
          const text = Array.from({ length: one.bytes }, () => String.fromCharCode(33 + (written++ % 94))).join('')
          await room.write(text)
          runs[runs.length - 1] = Buffer.concat([runs.at(-1) ?? Buffer.alloc(0), Buffer.from(text)])
        } else if (one.do === 'look') await room.look()
        else if (one.do === 'begin') {
          await room.begin()
          await room.write('')
          runs.push(Buffer.alloc(0))
        } else if (one.do === 'read') await read(one.max)
        else await Promise.all([readAll(one.max), room.look()])
      }
      await readAll(50)
      expect([run, at.offset]).toEqual([runs.length - 1, runs.at(-1)?.length])
    }),
    { numRuns: 150 },
  )
})

describe('the tail', () => {
  test('is the last lines, and what was before them can be asked for', async () => {
    await using room = await OutputRoom.create(tight)
    const lines = Array.from({ length: 40 }, (_, n) => `line ${n}`)
    for (const line of lines) {
      await room.write(`${line}\n`)
      await room.look()
    }
    const last = await tail(room.log, { lines: 3 })
    const before = await tail(room.log, { lines: 2, before: last.start })
    const rest = await tail(room.log, { lines: 1_000, before: before.start })
    expect([before.lines, last.lines]).toEqual([lines.slice(35, 37), lines.slice(37)])
    expect(rest.lines).toEqual(lines.slice(35 - rest.lines.length, 35))
    expect(rest.lines.length).toBeGreaterThan(10)
    expect({ ...last, end: last.end.offset }).toMatchObject({ end: lines.join('\n').length + 1 })
  })

  test('begins with a whole line, is bounded, and takes no line for another after what is missing', async () => {
    await using room = await OutputRoom.create(800_000)
    await room.write(`${'early line\n'.repeat(30_000)}${'x'.repeat(300_000)}\nbefore the gap`)
    await room.look()
    await truncate(room.file)
    await room.write('after\nlast')
    const { lines, start } = await tail(room.log, { lines: 10 })
    expect([lines, start.offset > 600_000]).toEqual([['before the gapafter', 'last'], true])
  })

  test('of the previous run is there until the next, and of a run that is gone there is none', async () => {
    await using room = await OutputRoom.create(roomy)
    const nothing = await tail(room.log, { lines: 5 })
    await room.write('one\ntwo')
    const { start } = await tail(room.log, { lines: 1 })
    await room.begin()
    await room.write('three\n')
    const previous = await tail(room.log, { run: 'previous', lines: 5 })
    expect(await readFile(previous.file ?? '', 'utf8')).toBe('one\ntwo')
    const beforeTwo = await tail(room.log, { lines: 5, before: start })
    await room.begin()
    const gone = await tail(room.log, { lines: 5, before: start })
    expect([nothing, previous.lines, beforeTwo.lines, gone]).toMatchObject([
      { lines: [] },
      ['one', 'two'],
      ['one'],
      { lines: [], gap: 'Skipped the rest of an earlier run, which is no longer kept.' },
    ])
  })
})

/** Follows in the background and keeps what came. */
function following(room: OutputRoom, from?: OutputCursor) {
  const stop = new AbortController()
  const chunks: OutputChunk[] = []
  const done = (async () => {
    for await (const chunk of follow(room.log, { from, signal: stop.signal })) chunks.push(chunk)
  })()
  return {
    chunks,
    said: () => chunks.flatMap(({ lines, gap }) => (gap === undefined ? lines : [gap, ...lines])),
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      await done
    },
  }
}

async function extentOf(room: OutputRoom) {
  const extent = await room.log.extent()
  if (extent === undefined) throw new Error('there is no output')
  return extent
}

describe('a follower', () => {
  test('reads on over cuts and from one run to the next', async () => {
    await using room = await OutputRoom.create(tight)
    await room.write('before\n')
    const { fileId } = await extentOf(room)
    await using follower = following(room, { fileId, offset: 0 })
    const expected = ['before']
    for (let n = 0; n < 30; n++) {
      await room.write(`run one line ${n}\n`)
      expected.push(`run one line ${n}`)
      if (n % 5 === 0) await eventually(() => follower.said().length === expected.length)
      await room.look()
    }
    await room.begin()
    await room.write('run two\n')
    expected.push('run two')
    await eventually(() => follower.said().at(-1) === 'run two')
    expect(follower.said()).toEqual(expected)
    const { end } = follower.chunks.at(-1) ?? {}
    expect(end).toEqual({ fileId: (await extentOf(room)).fileId, offset: 8 })
  })

  test('is told what is no longer kept', async () => {
    await using room = await OutputRoom.create(tight)
    await room.write('a')
    const { fileId } = await extentOf(room)
    for (let n = 0; n < 5; n++) {
      await room.write('0123456789\n'.repeat(8))
      await room.look()
    }
    await using follower = following(room, { fileId, offset: 1 })
    await eventually(() => follower.said().length > 8)
    expect(follower.said()).toEqual([
      'Skipped 352 B that are no longer kept.',
      ...Array.from({ length: 8 }, () => '0123456789'),
    ])
  })

  test('that is slow misses lines, and is told how many', async () => {
    await using room = await OutputRoom.create(100_000_000)
    await room.write('first\n')
    const { fileId } = await extentOf(room)
    const stop = new AbortController()
    const chunks = follow(room.log, { from: { fileId, offset: 0 }, signal: stop.signal })
    const seen: OutputChunk[] = [await nextOf(chunks)]
    await room.write('0123456789\n'.repeat(500_000))
    await room.write('the end\n')
    while (seen.at(-1)?.lines.at(-1) !== 'the end') seen.push(await nextOf(chunks))
    stop.abort()
    const lines = seen.flatMap((chunk) => chunk.lines)
    const skipped = Number(/^Skipped ([\d,]+) lines\.$/.exec(seen[1]?.gap ?? '')?.[1]?.replaceAll(',', ''))
    expect({
      whole: lines.every((line) => ['first', '0123456789', 'the end'].includes(line)),
      all: skipped + lines.length,
      few: lines.length < 30_000,
      gaps: seen.filter(({ gap }) => gap !== undefined).length,
    }).toEqual({ whole: true, all: 500_002, few: true, gaps: 1 })
  })
})

async function nextOf(chunks: AsyncGenerator<OutputChunk>): Promise<OutputChunk> {
  const { value } = (await chunks.next()) as IteratorYieldResult<OutputChunk>
  return value
}
