import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  commandId,
  commandInfo,
  commandTroubles,
  minimumMacOS,
} from '../../../tasks/package/mach-o/command-troubles.ts'
import { addTextSection, MachOError, parseMachO, uuidOf, writeUuid } from '../../../tasks/package/mach-o/parse.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const sentinel = 'FUSE_of_this_test'
const system = ['/usr/lib/libSystem.B.dylib', '/usr/lib/libc++.1.dylib']

const words = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value >>> 0, index * 4)
  return bytes
}
const name16 = (name: string): Buffer => Buffer.concat([Buffer.from(name, 'latin1')], 16)
const command = (type: number, body: Buffer): Buffer => {
  const size = Math.ceil((8 + body.length) / 8) * 8
  return Buffer.concat([words(type, size), body], size)
}
const library = (type: number, path: string): Buffer =>
  command(type, Buffer.concat([words(24, 2, 0, 0), Buffer.from(`${path}\0`)]))
const folder = (path: string): Buffer => command(0x8000001c, Buffer.concat([words(12), Buffer.from(`${path}\0`)]))
interface Made {
  readonly cpu?: number
  readonly fileType?: number
  readonly sectionName?: string
  readonly segmentName?: string
  readonly blob?: string
  readonly fuse?: string
  readonly platform?: number
  readonly minimum?: number
  readonly libraries?: readonly string[]
  readonly uuid?: string
  readonly more?: readonly Buffer[]
  /** Undefined: it has no such section. */
  readonly info?: string | undefined
  /** Between the load commands and what they name, and behind the code. */
  readonly room?: number
  /** Number of the section that its one symbol is in. */
  readonly symbolSection?: number
}

/** A Mach-O file with nothing in it but what is looked at. */
function made(given: Made = {}): Buffer {
  const { cpu = 0x0100000c, fileType = 2, sectionName = '__NODE_SEA_BLOB', segmentName = 'NODE_SEA' } = given
  const {
    blob = 'the blob',
    fuse = `${sentinel}:1`,
    platform = 1,
    minimum = 0x000d0500,
    libraries = system,
    uuid = uuidOf(commandId, cpu === 0x0100000c ? 'arm64' : 'x64'),
    more = [],
    room = 0,
    symbolSection = 2,
  } = given
  const info = 'info' in given ? given.info : commandInfo('1.2.3')
  const texts = [['__text', 'code'], ...(info === undefined ? [] : [['__info_plist', info]])]
  const code = Buffer.concat([...texts.map(([, text = '']) => Buffer.from(text)), Buffer.alloc(room)])
  const symbol = Buffer.concat([words(0), Buffer.from([0x0f, symbolSection]), Buffer.alloc(10)])
  const content = Buffer.concat([code, Buffer.from(`${blob}${fuse}`), symbol])
  const section = (name: string, segment: string, offset: number, length: number): Buffer =>
    Buffer.concat([...[name16(name), name16(segment), words(0, 0, length, 0, offset)], words(0, 0, 0, 0, 0, 0, 0)])
  const segment = (name: string, [from, length]: readonly [number, number], sections: readonly Buffer[]): Buffer => {
    const counts = words(0x1000 + from, 1, length, 0, from, 0, length, 0, 0, 0, sections.length, 0)
    return command(0x19, Buffer.concat([name16(name), counts, ...sections]))
  }
  const build = (start: number): Buffer[] => {
    const ends = texts.map((_, index) => texts.slice(0, index).reduce((sum, [, text = '']) => sum + text.length, start))
    const codeSections = texts.map(([name = '', text = ''], index) =>
      section(name, '__TEXT', ends[index] ?? 0, text.length),
    )
    const offset = start + code.length
    return [
      segment('__TEXT', [0, offset], codeSections),
      segment(segmentName, [offset, blob.length], [section(sectionName, segmentName, offset, blob.length)]),
      command(0x2, words(start + content.length - 16, 1, 0, 0)),
      command(0x32, words(platform, minimum, 0, 0)),
      ...libraries.map((path) => library(0xc, path)),
      command(0x1b, Buffer.from(uuid, 'hex')),
      ...more,
    ]
  }
  const size = Buffer.concat(build(0)).length
  const commands = build(32 + size + room)
  const header = words(0xfeedfacf, cpu, 0, fileType, commands.length, size, 0, 0)
  return Buffer.concat([header, ...commands, Buffer.alloc(room), content])
}

const section = (name: string, text: string) => ({ name, bytes: Buffer.from(text) })

const expected = { arch: 'arm64', blob: Buffer.from('the blob'), sentinel, isSigned: false } as const

test('a command that a Mac would start once it is signed has no troubles', () => {
  expect(commandTroubles(made(), expected)).toEqual([])
  expect(parseMachO(made())).toEqual({
    arch: 'arm64',
    isExecutable: true,
    segments: [
      { name: '__TEXT', sections: [section('__text', 'code'), section('__info_plist', commandInfo('1.2.3'))] },
      { name: 'NODE_SEA', sections: [section('__NODE_SEA_BLOB', 'the blob')] },
    ],
    libraries: system,
    libraryFolders: [],
    minimumMacOS,
    isSigned: false,
    uuid: uuidOf(commandId, 'arm64'),
  })
})

test.each<[what: string, given: Made, trouble: string]>([
  ['is for the other kind of Mac', { cpu: 0x01000007 }, 'It is for x64, not for arm64.'],
  ['is a library', { fileType: 6 }, 'It is no program that can be started.'],
  ['has its blob in another segment', { segmentName: '__TEXT' }, 'It has no section __NODE_SEA_BLOB'],
  ['has its blob by another name', { sectionName: '__OTHER' }, 'It has no section __NODE_SEA_BLOB'],
  ['carries something else of the same length', { blob: 'the flop' }, 'What it carries is not what was put into it.'],
  ['carries only a part', { blob: 'the blo' }, 'What it carries is not what was put into it.'],
  ['does not look for its blob', { fuse: `${sentinel}:0` }, 'the fuse is not flipped'],
  ['has no fuse', { fuse: '' }, 'the fuse is not flipped'],
  ['has two fuses', { fuse: `${sentinel}:1 ${sentinel}:1` }, 'or is there twice'],
  ['is signed already', { more: [command(0x1d, words(0, 0))] }, 'It is signed, which it should not be.'],
  ['has the UUID of its Node.js', { uuid: 'ab'.repeat(16) }, `Its UUID is ${'ab'.repeat(16)}, by which macOS`],
  ['needs a newer macOS', { minimum: 0x000e0000 }, 'It needs macOS 14.0, and the app says 13.5.'],
  ['is for an iPhone', { platform: 2 }, 'It needs macOS of no version'],
  ['has no Info.plist', { info: undefined }, 'It has no Info.plist in __info_plist'],
  [
    'has another Info.plist',
    { info: commandInfo('1.2.3').replace(commandId, 'com.example') },
    'that names dev.metalbar',
  ],
  ['gives no reason', { info: commandInfo('1.2.3').replace('NSLocalNetwork', 'NSOther') }, 'why it wants the local'],
  ['has half an Info.plist', { info: commandInfo('1.2.3').slice(0, 300) }, 'It has no Info.plist in __info_plist'],
  [
    'needs a library of Homebrew',
    { libraries: [...system, '/opt/homebrew/lib/x.dylib'] },
    'libraries that macOS does not bring: /opt/homebrew/lib/x.dylib.',
  ],
  ['needs one weakly', { more: [library(0x80000018, '@rpath/y.dylib')] }, 'does not bring: @rpath/y.dylib.'],
  [
    'looks for libraries beside it',
    { more: [folder('@loader_path/lib')] },
    'It looks for libraries in @loader_path/lib.',
  ],
])('a command that %s is named', (_, given, trouble) => {
  expect(commandTroubles(made(given), expected)).toEqual([expect.stringContaining(trouble)])
})

test('one that should be signed and is not is named', () => {
  expect(commandTroubles(made(), { ...expected, isSigned: true })).toEqual(['It is not signed, which it should be.'])
})

test('a program gets a UUID of its own by what it is and its processor, and nothing else of it changes', async () => {
  await using folder = await temporaryFolder()
  const shared = 'ab'.repeat(16)
  const given = async (cpu: number, id: string, uuid = shared): Promise<Buffer> => {
    const file = path.join(folder.dir, 'program')
    await writeFile(file, made({ cpu, uuid }))
    await writeUuid(file, id)
    return readFile(file)
  }
  const [arm, intel] = [0x0100000c, 0x01000007]
  const apps = [await given(arm, 'app'), await given(intel, 'app'), await given(arm, 'app Helper')]
  const uuids = apps.map((file) => parseMachO(file).uuid)
  expect(new Set([...uuids, shared]).size).toBe(4)
  expect(await given(arm, 'app', 'cd'.repeat(16))).toEqual(apps[0])
  expect(apps[0]).toEqual(made({ uuid: uuids[0] ?? '' }))
  await writeFile(path.join(folder.dir, 'text'), 'a text that is long enough for the header of a program')
  await expect(writeUuid(path.join(folder.dir, 'text'), 'app')).rejects.toThrow(MachOError)
})

test('an Info.plist is added behind the code, and whatever else the program names stays where it is', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'program')
  const info = Buffer.from(commandInfo('1.2.3'))
  const added = async (given: Made): Promise<Buffer> => {
    await writeFile(file, made({ info: undefined, ...given }))
    await addTextSection(file, '__info_plist', info)
    return readFile(file)
  }
  const room = info.length + 80
  const program = await added({ room })
  const symbol = (bytes: Buffer) => bytes.at(-11)
  expect(commandTroubles(program, expected)).toEqual([])
  expect(parseMachO(program)).toEqual(parseMachO(made()))
  expect([program.length, symbol(program), symbol(await added({ room, symbolSection: 1 }))]).toEqual([
    made({ info: undefined, room }).length,
    3,
    1,
  ])
  await expect(added({ room: 79 })).rejects.toThrow(MachOError)
  await expect(added({ room: info.length - 1 })).rejects.toThrow('has no room for __info_plist')
  expect(await readFile(file)).toEqual(made({ info: undefined, room: info.length - 1 }))
})

test.each([
  [
    'a program of Linux',
    Buffer.from('\u007fELF and so on, long enough for a header of it'),
    'no Mach-O file of 64 bits',
  ],
  ['nothing', Buffer.alloc(0), 'has 0 there'],
  ['one for a PowerPC', made({ cpu: 18 }), 'a processor of type 0x12'],
])('%s is refused', (_, file, why) => {
  expect(() => parseMachO(file)).toThrow(MachOError)
  expect(() => parseMachO(file)).toThrow(why)
})

test('whatever its bytes say, it is read within its bounds or refused in a sentence', () => {
  const whole = made({ more: [folder('@loader_path/lib')] })
  const byte = fc.integer({ min: 0, max: 255 })
  const changes = fc.array(fc.tuple(fc.nat(whole.length - 1), byte), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(fc.nat(whole.length), changes, (length, changed) => {
      const file = Buffer.from(whole)
      for (const [at, value] of changed) file[at] = value
      try {
        parseMachO(file.subarray(0, length))
      } catch (error) {
        if (!(error instanceof MachOError)) throw error
      }
    }),
    { numRuns: 2_000 },
  )
})
