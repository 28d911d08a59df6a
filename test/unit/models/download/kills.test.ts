import { execa } from 'execa'
import { createHash, randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startModelServer } from '../../../support/model-server/model-server.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const MiB = 1024 * 1024
const lives = 50
const maxLostBytes = 8 * MiB
const once = fileURLToPath(new URL('../../../support/model-server/download-once.ts', import.meta.url))

test(
  `a downloading process killed ${lives} times at random offsets loses at most 8 MiB each time, and the file is right in the end`,
  { timeout: 240_000 },
  async () => {
    const seed = Number(process.env['METALBAR_SEED'] ?? randomInt(2 ** 31))
    process.stdout.write(`seed of the kills: METALBAR_SEED=${seed}\n`)
    const random = randomFrom(seed)
    await using server = await startModelServer()
    await using folder = await temporaryFolder()
    const partialPath = join(folder.dir, 'x.gguf.partial')
    const { url, content } = await server.serve('/x.gguf', { sizeBytes: 300 * MiB + 3, seed: 'kills', etag: '"k"' })
    const losses: number[] = []
    let reached = 0
    for (let life = 0; life < lives; life += 1) {
      const killAfterBytes = 1 + Math.floor(random() * 10 * MiB)
      const { beganWith, signal } = await download({ url, partialPath, killAfterBytes })
      if (life > 0) losses.push(reached - beganWith)
      expect(signal).toBe('SIGKILL')
      reached = beganWith + killAfterBytes
    }
    const { beganWith } = await download({ url, partialPath })
    losses.push(reached - beganWith)
    const whole = createHash('sha256').update(await readFile(partialPath))
    process.stdout.write(`most bytes lost by one kill: ${(Math.max(...losses) / MiB).toFixed(1)} MiB\n`)
    expect({ sha256: whole.digest('hex'), tooMuch: losses.filter((bytes) => bytes > maxLostBytes) }).toEqual({
      sha256: content.sha256(),
      tooMuch: [],
    })
  },
)

async function download(input: object): Promise<{ beganWith: number; signal: string | undefined }> {
  const { stdout, stderr, signal, exitCode } = await execa(process.execPath, [once, JSON.stringify(input)], {
    reject: false,
  })
  const line = String(stdout).split('\n')[0] ?? ''
  if (!line.startsWith('{') || (exitCode !== 0 && signal === undefined))
    throw new Error(`the process said ${line} ${String(stderr)}`)
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
