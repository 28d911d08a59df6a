import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { Poller } from '../../src/agent-core/servers/poller.ts'
import type { CountedServer } from '../../src/agent-core/servers/service-server.ts'
import { RuntimeFigures } from '../../src/agent-core/servers/figures/runtime-figures.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { writeLlamaGguf, writeLlamaShards } from '../support/gguf-writer.ts'
import { silentLog } from '../support/silent-log.ts'
import { useLlamaServer } from '../support/skip.ts'

const llamaServer = useLlamaServer()

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metalbar-llama-server-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('a quantised model in three files is served from the first of them', async () => {
  const weights = { embedding: 256, feedForward: 512, weightType: 'Q4_K' } as const
  const [first = ''] = await writeLlamaShards(join(folder, 'split'), 3, weights)
  await using server = await start(first)
  await eventually(async () => (await health(server.url)) === 200, { what: '/health answering 200' })
  expect(await server.terminate()).toBe(0)
})

test("what is read of llama-server's work is what it tells its clients, tokens and time alike", async () => {
  const file = join(folder, 'counted.gguf')
  await writeLlamaGguf(file, { vocabulary: 32_000, embedding: 256, blocks: 4, context: 4096 })
  await using server = await start(file, '--metrics', '--parallel', '1', '--threads', '1')
  await eventually(async () => (await health(server.url)) === 200, { what: '/health answering 200' })
  using poller = new Poller({
    port: Number(new URL(server.url).port),
    sleepsWhenIdle: false,
    platform: hostPlatform(),
    log: silentLog,
    onReading: (reading) => figures.note(counted, reading),
  })
  const counted: CountedServer = {
    ...{ key: 'default/a', role: 'current', run: 'run', pid: 1, port: Number(new URL(server.url).port), digest: 'd' },
    ...{ sleepsWhenIdle: false, isFound: false, isWell: true },
    look: (options) => poller.look(options),
  }
  const shown: number[] = []
  const rate = () => figures.view('default/a')?.generatedTokensPerSecond
  await using figures: RuntimeFigures = new RuntimeFigures({
    servers: () => [counted],
    onChange: () => shown.push(...[rate()].filter((value) => value !== undefined)),
  })
  figures.setLooker('window')
  const client = { requests: 0, tokens: 0, prompt: 0, cached: 0, ms: 0 }
  while (client.requests < 3 || shown.length === 0) {
    const { predicted_n, prompt_n, cache_n, predicted_ms } = await answered(server.url, `hello ${client.requests}`)
    client.requests += 1
    client.tokens += predicted_n
    client.prompt += prompt_n
    client.cached += cache_n
    client.ms += predicted_ms
  }
  await figures.refresh()
  const totals = figures.totals().get('default/a')
  expect(totals).toMatchObject({
    generatedTokens: client.tokens,
    promptTokens: client.prompt,
    cachedTokens: client.cached,
  })
  // It counts whole milliseconds of each request.
  expect(Math.abs((totals?.generationSeconds ?? 0) * 1_000 - client.ms)).toBeLessThanOrEqual(client.requests)
})

const answer = z.object({
  timings: z.object({ predicted_n: z.number(), predicted_ms: z.number(), prompt_n: z.number(), cache_n: z.number() }),
})

/** What it tells of a long answer. */
async function answered(url: string, prompt: string) {
  const response = await fetch(`${url}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, n_predict: 300, ignore_eos: true }),
  })
  return answer.parse(await response.json()).timings
}

async function health(url: string): Promise<number | undefined> {
  try {
    return (await fetch(`${url}/health`)).status
  } catch {
    return undefined
  }
}

async function start(model: string, ...args: string[]) {
  const port = await freePort()
  const child = spawn(llamaServer, ['--model', model, '--host', '127.0.0.1', '--port', String(port), ...args], {
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  const terminate = async (): Promise<number | null> => {
    child.kill('SIGTERM')
    await ended
    return child.exitCode
  }
  return {
    url: `http://127.0.0.1:${port}`,
    terminate,
    [Symbol.asyncDispose]: async () => {
      await terminate()
    },
  }
}
