import { glob, readFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commandTroubles } from '../../../tasks/package/mach-o/command-troubles.ts'
import { parseMachO } from '../../../tasks/package/mach-o/parse.ts'
import { optionsOfLauncher, sentinel } from '../../../tasks/package/single-executable.ts'
import { nodeOf, nodesForMacsPart } from '../../../tasks/setup/nodes-for-macs.ts'
import { skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const found = nodesForMacsPart.find()
const missing = found.found ? undefined : found.reason
skipWhen(missing)

const root = path.join(import.meta.dirname, '../../..')
const folder = await temporaryFolder()
/** A minute on two cores; it says nothing about speed. */
const longestBuildMs = 600_000
// As a process of its own: what a test sets in its environment makes another build. It throws where a command has troubles.
beforeAll(async () => {
  if (missing !== undefined) return
  const build = path.join(root, 'tasks/package/build-command.ts')
  await execa(process.execPath, [build, '--for-macs', folder.dir], { env: { NODE_ENV: undefined } })
}, longestBuildMs)
afterAll(() => folder[Symbol.asyncDispose]())

/** As Node.js writes the name of an asset: behind its length. The bundle names its workers too. */
function asAsset(name: string): Buffer {
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(name.length))
  return Buffer.concat([length, Buffer.from(name)])
}

test.each(['arm64', 'x64'] as const)(
  'the command for Macs with %s is Node.js with what runs here, ready to be signed',
  async (arch) => {
    const [file, plain] = await Promise.all(
      [path.join(folder.dir, `metal-agent-darwin-${arch}`, 'metal-agent'), nodeOf(`darwin-${arch}`)].map((one) =>
        readFile(one),
      ),
    )
    const { segments } = parseMachO(file ?? Buffer.alloc(0))
    const blob = segments.find(({ name }) => name === 'NODE_SEA')?.sections[0]?.bytes ?? new Uint8Array()
    const text = Buffer.from(blob.buffer, blob.byteOffset, blob.byteLength)
    const workers: string[] = []
    for await (const worker of glob('src/**/*-worker.ts', { cwd: root })) {
      workers.push(`workers/${path.basename(worker, '.ts')}.js`)
    }
    expect(workers).toContain('workers/header-worker.js')
    expect([...workers, 'renderer/index.html'].filter((name) => !text.includes(asAsset(name)))).toEqual([])
    expect((await optionsOfLauncher()).filter((one) => !text.includes(one))).toEqual([])
    expect([root, 'metalbar-command-'].filter((place) => text.includes(place))).toEqual([])
    expect(commandTroubles(file ?? Buffer.alloc(0), { arch, blob, sentinel, isSigned: false })).toEqual([])
    // What it was made of, which the same look tells from it.
    expect(commandTroubles(plain ?? Buffer.alloc(0), { arch, blob, sentinel, isSigned: false })).toEqual([
      expect.stringContaining('has no section __NODE_SEA_BLOB'),
      expect.stringContaining('the fuse is not flipped'),
      expect.stringContaining('It is signed'),
      expect.stringContaining('Its UUID is'),
      expect.stringContaining('It has no Info.plist'),
    ])
  },
)
