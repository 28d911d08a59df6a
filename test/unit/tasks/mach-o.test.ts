import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { commandId, commandTroubles, minimumMacOS } from '../../../tasks/package/mach-o/command-troubles.ts'
import { MachOError, parseMachO, uuidOf, writeUuid } from '../../../tasks/package/mach-o/parse.ts'
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
  } = given
  const content = Buffer.from(`${blob}${fuse}`)
  const build = (offset: number): Buffer[] => {
    const section = Buffer.concat([
      name16(sectionName),
      name16(segmentName),
      words(0, 0, blob.length, 0, offset),
      words(0, 0, 0, 0, 0, 0, 0),
    ])
    const counts = words(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)
    return [
      command(0x19, Buffer.concat([name16(segmentName), counts, section])),
      command(0x32, words(platform, minimum, 0, 0)),
      ...libraries.map((path) => library(0xc, path)),
      command(0x1b, Buffer.from(uuid, 'hex')),
      ...more,
    ]
  }
  const size = Buffer.concat(build(0)).length
  const commands = build(32 + size)
  const header = words(0xfeedfacf, cpu, 0, fileType, commands.length, size, 0, 0)
  return Buffer.concat([header, ...commands, content])
}

const expected = { arch: 'arm64', blob: Buffer.from('the blob'), sentinel, isSigned: false } as const

test('a command that a Mac would start once it is signed has no troubles', () => {
  expect(commandTroubles(made(), expected)).toEqual([])
  expect(parseMachO(made())).toEqual({
    arch: 'arm64',
    isExecutable: true,
    segments: [{ name: 'NODE_SEA', sections: [{ name: '__NODE_SEA_BLOB', bytes: expect.anything() as unknown }] }],
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
