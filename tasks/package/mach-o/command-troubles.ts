import { build, parse } from 'plist'
import { z } from 'zod'
import { parseMachO, uuidOf, type MachO } from './parse.ts'

/** What every macOS has; anything else would have to be shipped beside the command, or be found by luck. */
const librariesOfMacOS: ReadonlySet<string> = new Set([
  '/usr/lib/libSystem.B.dylib',
  '/usr/lib/libc++.1.dylib',
  '/System/Library/Frameworks/CoreFoundation.framework/Versions/A/CoreFoundation',
  '/System/Library/Frameworks/Security.framework/Versions/A/Security',
])

/** Of the app, in `electron-builder.yml`, whose command must start wherever the app does. */
export const minimumMacOS = '13.5'

/** What the UUID of the command is made of, and its bundle id. Never changed: macOS would forget what a person allowed. */
export const commandId = 'dev.metalbar.metal-agent'

/** In the segment `__TEXT`, where macOS reads the Info.plist of a program that is in no bundle. */
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

const neededInfo = z.object({
  CFBundleIdentifier: z.literal(commandId),
  NSLocalNetworkUsageDescription: z.string().min(1),
})

export interface ExpectedCommand {
  readonly arch: MachO['arch']
  /** What Node.js looks for in it. */
  readonly blob: Uint8Array
  /** By which Node.js knows that there is one: followed by `:1`. */
  readonly sentinel: string
  /** Injection takes the signature off, and only a Mac puts one on. */
  readonly isSigned: boolean
}

/** What is wrong with the self-contained command for a Mac, each in a sentence. Throws MachOError where it is no program for a Mac at all. */
export function commandTroubles(file: Uint8Array, expected: ExpectedCommand): string[] {
  const found = parseMachO(file)
  const blobs = found.segments.filter(({ name }) => name === 'NODE_SEA').flatMap(({ sections }) => sections)
  const [blob] = blobs
  const foreign = found.libraries.filter((library) => !librariesOfMacOS.has(library))
  return [
    found.arch !== expected.arch && `It is for ${found.arch}, not for ${expected.arch}.`,
    !found.isExecutable && 'It is no program that can be started.',
    (blobs.length !== 1 || blob?.name !== '__NODE_SEA_BLOB') &&
      'It has no section __NODE_SEA_BLOB alone in the segment NODE_SEA.',
    blob !== undefined &&
      Buffer.compare(blob.bytes, expected.blob) !== 0 &&
      'What it carries is not what was put into it.',
    fuses(file, expected.sentinel) !== '1' &&
      'Node.js in it does not look for what it carries: the fuse is not flipped, or is there twice.',
    found.isSigned !== expected.isSigned &&
      `It is ${found.isSigned ? '' : 'not '}signed, which it should ${expected.isSigned ? '' : 'not '}be.`,
    found.minimumMacOS !== minimumMacOS &&
      `It needs macOS ${found.minimumMacOS ?? 'of no version'}, and the app says ${minimumMacOS}.`,
    found.uuid !== uuidOf(commandId, found.arch) &&
      `Its UUID is ${found.uuid ?? 'none'}, by which macOS would take it for another program.`,
    !hasInfo(found) &&
      `It has no Info.plist in ${infoSection} that names ${commandId} and says why it wants the local network.`,
    foreign.length > 0 && `It needs libraries that macOS does not bring: ${foreign.join(', ')}.`,
    found.libraryFolders.length > 0 && `It looks for libraries in ${found.libraryFolders.join(', ')}.`,
  ].filter((trouble) => trouble !== false)
}

function hasInfo({ segments }: MachO): boolean {
  const text = segments.find(({ name }) => name === '__TEXT')
  const info = text?.sections.find(({ name }) => name === infoSection)
  if (info === undefined) return false
  try {
    return neededInfo.safeParse(parse(Buffer.from(info.bytes).toString('utf8'))).success
  } catch {
    return false
  }
}

/** The digits that follow each sentinel. */
function fuses(file: Uint8Array, sentinel: string): string {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  let digits = ''
  for (let at = bytes.indexOf(`${sentinel}:`); at !== -1; at = bytes.indexOf(`${sentinel}:`, at + 1)) {
    digits += String.fromCharCode(bytes[at + sentinel.length + 1] ?? 0)
  }
  return digits
}
