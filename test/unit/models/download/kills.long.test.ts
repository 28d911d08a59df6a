import { execa } from 'execa'
import { createHash, randomInt } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startModelServer, type ModelServer } from '../../../support/model-server/model-server.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const MiB = 1024 * 1024
const kills = 8
/** Each with a file of its own, one beside the other. */
const chains = 2
/** More than may be lost. */
const maxKillBytes = 100 * MiB
const maxLostBytes = 64 * MiB
const root = fileURLToPath(new URL('../../../..', import.meta.url))

test(
  `a downloading process killed ${kills} times at random offsets loses at most 64 MiB each time, and the file is right in the end`,
  { timeout: 300_000 },
  async () => {
    const seed = Number(process.env['METALBAR_SEED'] ?? randomInt(2 ** 31))
    process.stdout.write(`seed of the kills: METALBAR_SEED=${seed}\n`)
    await using server = await startModelServer()
    await using folder = await temporaryFolder()
    const program = await bundled(folder.dir)
    const lost = await Promise.all(
      Array.from({ length: chains }, (_, chain) =>
        killAgainAndAgain(program, server, join(folder.dir, `${chain}.partial`), randomFrom(seed + chain)),
      ),
    )
    const losses = lost.flat()
    process.stdout.write(`most bytes lost by one kill: ${(Math.max(...losses) / MiB).toFixed(1)} MiB\n`)
    expect({ kills: losses.length, tooMuch: losses.filter((bytes) => bytes > maxLostBytes) }).toEqual({
      kills,
      tooMuch: [],
    })
  },
)

/** Downloads one file, with its share of the kills in between. Returns what each of them lost. */
async function killAgainAndAgain(
  program: Program,
  server: ModelServer,
  partialPath: string,
  random: () => number,
): Promise<number[]> {
  const times = kills / chains
  const behaviour = { sizeBytes: times * maxKillBytes + 3, seed: partialPath, etag: '"k"' }
  const { url, content } = await server.serve(`/${basename(partialPath)}`, behaviour)
  const losses: number[] = []
  let reached = 0
  for (let life = 0; life <= times; life += 1) {
    const killAfterBytes = life === times ? undefined : 1 + Math.floor(random() * maxKillBytes)
    const { beganWith, signal } = await download(program, { url, partialPath, killAfterBytes })
    expect(signal).toBe(killAfterBytes === undefined ? undefined : 'SIGKILL')
    if (life > 0) losses.push(reached - beganWith)
    reached = beganWith + (killAfterBytes ?? 0)
  }
  const whole = createHash('sha256')
  await pipeline(createReadStream(partialPath), whole)
  expect(whole.digest('hex')).toBe(content.sha256())
  return losses
}

interface Program {
  readonly file: string
  readonly env: NodeJS.ProcessEnv
}

/** In one file, as the agent runs, and compiled before: so it starts in a quarter of the time. */
async function bundled(folder: string): Promise<Program> {
  const outDir = join(folder, 'bundle')
  const entry = join(root, 'test/support/model-server/download-once.ts')
  const options = { cwd: root, preferLocal: true, localDir: root } as const
  await execa('vite', ['build', '--ssr', entry, '--logLevel', 'warn', '--outDir', outDir], options)
  const program = { file: join(outDir, 'metal-agent.js'), env: { NODE_COMPILE_CACHE: join(folder, 'compiled') } }
  // Only a process that ends by itself leaves what it compiled: this one for want of an address.
  await execa(process.execPath, [program.file], { env: program.env, reject: false })
  return program
}

async function download(
  { file, env }: Program,
  input: object,
): Promise<{ beganWith: number; signal: string | undefined }> {
  const { stdout, stderr, signal, exitCode } = await execa(process.execPath, [file, JSON.stringify(input)], {
    env,
    reject: false,
  })
  const line = stdout.split('\n')[0] ?? ''
  if (!line.startsWith('{') || (exitCode !== 0 && signal === undefined))
    throw new Error(`the process said ${line} ${stderr}`)
  return { ...(JSON.parse(line) as { beganWith: number }), signal }
}

/** mulberry32 */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
