import { createHash } from 'node:crypto'
import { open, readFile, writeFile } from 'node:fs/promises'
import { build } from 'plist'

/**
 * Two changes to programs for a Mac, so that macOS asks a person about the local network and keeps the answer. The format:
 * https://github.com/apple-oss-distributions/xnu/blob/main/EXTERNAL_HEADERS/mach-o/loader.h
 */

/** Bundle id of the command, of which its UUID is made too. Never changed: macOS would forget what a person allowed. */
export const commandId = 'dev.metalbar.metal-agent'

/** Section of the segment `__TEXT` where macOS reads the Info.plist of a program that is in no bundle. */
export const infoSection = '__info_plist'

/** Without a bundle id macOS does not know whom a person permitted, and without a reason it asks nobody about the local network. */
export const commandInfo = (version: string): string =>
  build({
    CFBundleIdentifier: commandId,
    CFBundleName: 'metal-agent',
    CFBundleExecutable: 'metal-agent',
    CFBundleInfoDictionaryVersion: '6.0',
    CFBundleShortVersionString: version,
    CFBundleVersion: version,
    NSLocalNetworkUsageDescription:
      'metal-agent talks to your Kubernetes cluster, and pods of the cluster ask the models on this Mac for completions.',
  })

export class MachOError extends Error {
  override readonly name = 'MachOError'
}

const magic = 0xfeedfacf
const headerBytes = 32
const archOf: Readonly<Record<number, 'arm64' | 'x64'>> = { 0x0100000c: 'arm64', 0x01000007: 'x64' }
const command = { symbols: 0x2, segment: 0x19, uuid: 0x1b } as const
const segmentBytes = 72
const sectionBytes = 80
const symbolBytes = 16
const uuidBytes = 16
/** The lowest byte of a section's flags; these have no bytes in the file. */
const zeroFilled: ReadonlySet<number> = new Set([0x1, 0xc, 0x12])

/**
 * Gives a program a UUID of its own, which voids a signature. macOS 15 and later keep the permission for the local network by the UUID of
 * the main executable, and all that is made of one Electron or one Node.js has the same: a permitted program could still be refused.
 * Throws MachOError.
 */
export async function writeUuid(file: string, id: string): Promise<void> {
  await using handle = await open(file, 'r+')
  const start = Buffer.alloc(startBytes)
  const { bytesRead } = await handle.read(start, 0, startBytes, 0)
  const bytes = start.subarray(0, bytesRead)
  const arch = archIn(reader(bytes))
  const place = [...commands(bytes)].find(({ type }) => type === command.uuid)
  if (!place) throw new MachOError(`${file} has no UUID that could be replaced.`)
  await handle.write(createHash('sha256').update(`${id} ${arch}`).digest(), 0, uuidBytes, place.offset + 8)
}

/**
 * Adds a section to the segment of a program that its code is in, between its last section and its end: the kernel maps it with the rest, and
 * `codesign` finds an Info.plist in `__info_plist` there. Voids a signature. Throws MachOError where there is no room.
 */
export async function addTextSection(file: string, name: string, content: Uint8Array): Promise<void> {
  const bytes = await readFile(file)
  const all = [...commands(bytes)]
  const text = all.find(({ type, at }) => type === command.segment && at.text(8, 16) === '__TEXT')
  if (!text) throw new MachOError(`${file} has no segment __TEXT.`)
  const places = all.flatMap(({ type, at }) => (type === command.segment ? placesIn(at) : []))
  const here = placesIn(text.at)
  const commandsEnd = headerBytes + bytes.readUInt32LE(20)
  const [from, length] = [text.at.u64(40), text.at.u64(48)]
  const offset = Math.max(commandsEnd + sectionBytes, ...here.map(({ end }) => end))
  const first = Math.min(...places.map(({ offset: start }) => start))
  if (commandsEnd + sectionBytes > first || offset + content.length > from + length) {
    throw new MachOError(`${file} has no room for ${name} of ${content.length} bytes.`)
  }
  moveSymbols(bytes, all, sectionsUpTo('__TEXT', all))
  const header = Buffer.alloc(sectionBytes)
  header.write(name, 0, 'latin1')
  header.write('__TEXT', 16, 'latin1')
  header.writeBigUInt64LE(BigInt(text.at.u64(24) + offset - from), 32)
  header.writeBigUInt64LE(BigInt(content.length), 40)
  header.writeUInt32LE(offset, 48)
  const end = text.offset + text.at.u32(4)
  bytes.copyWithin(end + sectionBytes, end, commandsEnd)
  header.copy(bytes, end)
  bytes.set(content, offset)
  bytes.writeUInt32LE(text.at.u32(4) + sectionBytes, text.offset + 4)
  bytes.writeUInt32LE(here.length + 1, text.offset + 64)
  bytes.writeUInt32LE(bytes.readUInt32LE(20) + sectionBytes, 20)
  await writeFile(file, bytes)
}

/** Where the sections of a segment have their bytes; none for those that have none in the file. */
function placesIn(at: Reader): { readonly offset: number; readonly end: number }[] {
  return Array.from({ length: at.u32(64) }, (_, index) => segmentBytes + index * sectionBytes)
    .filter((section) => !zeroFilled.has(at.u32(section + 64) & 0xff))
    .map((section) => ({ offset: at.u32(section + 48), end: at.u32(section + 48) + at.u64(section + 40) }))
}

const sectionsUpTo = (name: string, all: readonly LoadCommand[]): number => {
  const segments = all.filter(({ type }) => type === command.segment)
  const last = segments.findIndex(({ at }) => at.text(8, 16) === name)
  return segments.slice(0, last + 1).reduce((sum, { at }) => sum + at.u32(64), 0)
}

/** Symbols name their section by its number among all: those behind the first `before` are one further. */
function moveSymbols(bytes: Buffer, all: readonly LoadCommand[], before: number): void {
  for (const { at } of all.filter(({ type }) => type === command.symbols)) {
    for (let symbol = at.u32(8), left = at.u32(12); left > 0; left--, symbol += symbolBytes) {
      const number = bytes.readUInt8(symbol + 5)
      const isInSection = (bytes.readUInt8(symbol + 4) & 0x0e) === 0x0e
      if (isInSection && number > before) bytes.writeUInt8(number + 1, symbol + 5)
    }
  }
}

/** Load commands are at the start of a file: those of Electron and of Node.js take less than 8 KiB. */
const startBytes = 256 * 1024

function archIn(header: Reader): 'arm64' | 'x64' {
  if (header.u32(0) !== magic) throw new MachOError('It is no Mach-O file of 64 bits for one processor.')
  const cpu = header.u32(4)
  const arch = archOf[cpu]
  if (arch === undefined) throw new MachOError(`It is for a processor of type 0x${cpu.toString(16)}.`)
  return arch
}

interface Reader {
  u32(offset: number): number
  /** As a count of bytes, which is safe to calculate with. */
  u64(offset: number): number
  /** Up to the zero that ends it, or `most` bytes. */
  text(offset: number, most?: number): string
  bytes(offset: number, length: number): Uint8Array
}

function reader(bytes: Uint8Array): Reader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const check = (offset: number, length: number): void => {
    if (offset + length <= bytes.length) return
    throw new MachOError(`It names ${length} bytes at ${offset}, and has ${bytes.length} there.`)
  }
  const u32 = (offset: number): number => {
    check(offset, 4)
    return view.getUint32(offset, true)
  }
  return {
    u32,
    u64: (offset) => u32(offset) + u32(offset + 4) * 2 ** 32,
    text: (offset, most = Infinity) => {
      check(offset, 1)
      const [from] = new TextDecoder('latin1')
        .decode(bytes.subarray(offset, Math.min(bytes.length, offset + most)))
        .split('\0')
      return from ?? ''
    },
    bytes: (offset, length) => {
      check(offset, length)
      return bytes.subarray(offset, offset + length)
    },
  }
}

interface LoadCommand {
  readonly type: number
  readonly at: Reader
  /** In the file. */
  readonly offset: number
}

function* commands(file: Uint8Array): Generator<LoadCommand> {
  const header = reader(file)
  const all = header.bytes(headerBytes, header.u32(20))
  let offset = 0
  for (let left = header.u32(16); left > 0; left--) {
    const here = reader(all.subarray(offset))
    const [type, size] = [here.u32(0), here.u32(4)]
    if (size < 8 || size % 8 !== 0) throw new MachOError(`Its load command of type ${type} has ${size} bytes.`)
    yield { type, at: reader(here.bytes(0, size)), offset: headerBytes + offset }
    offset += size
  }
}
