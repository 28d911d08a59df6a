import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { estimateMlx, readMlxFolder } from '../../../../src/agent-core/memory/estimate/mlx.ts'
import { mlxLmRuntime } from '../../../../src/agent-core/runtimes/mlx-lm.ts'
import { inferenceServiceSpec, modelSpec } from '../../../../src/agent-core/kube/resources.ts'
import { eventually } from '../../../support/eventually.ts'
import { freePort } from '../../../support/free-port.ts'
import { writeMlxModel, type MlxShape } from '../../../support/mlx-writer.ts'
import { skipWhen, useMlxLm } from '../../../support/skip.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const mlxLm = useMlxLm()

describe('the real mlx-lm at work', () => {
  skipWhen(process.platform === 'linux' ? undefined : 'VmHWM is of Linux')

  const manyHeads = { layers: 16, heads: 16, kvHeads: 16, headSize: 256, contextTokens: 112 }
  test.each<[string, MlxShape & { contextTokens: number }, number]>([
    ['heavy weights', { layers: 8, hidden: 1024, feedForward: 2048, heads: 16, contextTokens: 56 }, 2],
    ['a heavy cache', manyHeads, 4],
    ['windows', { ...manyHeads, window: 32 }, 2],
  ])('takes about what was estimated: %s', async (_, shape, slots) => {
    await using folder = await temporaryFolder()
    const model = path.join(folder.dir, 'model')
    await writeMlxModel(model, shape)
    const { contextTokens } = shape
    const estimate = estimateMlx({ ...(await readMlxFolder(model)), contextTokens, slots, metal: false })
    const measured = await peakOf(model, {
      slots,
      promptBytes: contextTokens - 12,
      promptCacheMiB: estimate.cacheRamThatHolds ?? 0,
    })
    const share = measured / estimate.total
    // 0.93 to 1.06 in ten runs; when a conversation ends beside others decides how many copies there are at once.
    expect(share).toBeGreaterThan(0.8)
    expect(share).toBeLessThan(1.15)
  })
})

/** The most memory, in bytes, that it had over two rounds of different conversations on all slots at once. */
async function peakOf(
  model: string,
  { slots, promptBytes, promptCacheMiB }: { slots: number; promptBytes: number; promptCacheMiB: number },
): Promise<number> {
  const port = await freePort()
  const spec = inferenceServiceSpec.parse({ modelRef: 'm', parallelSlots: slots })
  const argv = mlxLmRuntime.argv({
    spec,
    model: modelSpec.parse({ source: 'm' }),
    modelPath: model,
    port,
    promptCacheMiB,
  })
  // Freed memory goes back at once, as Metal's does.
  const env = { ...process.env, ...mlxLmRuntime.environment, MALLOC_MMAP_THRESHOLD_: '262144' }
  const server = spawn(mlxLm, argv, { cwd: path.dirname(model), env, stdio: 'ignore' })
  try {
    const ask = async (prompt: string, tokens: number): Promise<boolean> => {
      const body = JSON.stringify({ model: 'default_model', prompt, max_tokens: tokens })
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(`http://127.0.0.1:${port}/v1/completions`, { method: 'POST', headers, body })
      await answer.text()
      return answer.ok
    }
    await eventually(() => ask('a', 1).catch(() => false), { timeoutMs: 60_000, what: 'a first token' })
    const conversation = async (slot: number): Promise<boolean[]> => {
      const answers: boolean[] = []
      for (const round of [0, 1]) {
        const letter = String.fromCharCode(97 + slot + slots * round)
        answers.push(await ask(letter.repeat(promptBytes), 2 + 3 * ((slot + round) % 4)))
      }
      return answers
    }
    const answers = await Promise.all(Array.from({ length: slots }, (_, slot) => conversation(slot)))
    expect(new Set(answers.flat())).toEqual(new Set([true]))
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB/m.exec(await readFile(`/proc/${server.pid}/status`, 'utf8')) ?? []
    return Number(kibibytes) * 1_024
  } finally {
    server.kill()
    await once(server, 'exit')
  }
}
