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

test("what is read of llama-server's work is what its client counts, tokens and rate alike", async () => {
  const file = join(folder, 'twenty-seconds.gguf')
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
  const client = { requests: 0, tokens: 0, prompt: 0, cached: 0, timed: 0, ms: 0 }
  while (client.ms < 20_000) {
    const { tokens, prompt, cached, ms } = await streamed(server.url, `hello ${client.requests}`)
    client.requests += 1
    client.tokens += tokens
    client.prompt += prompt
    client.cached += cached
    // From the first token to the last there is one less.
    client.timed += tokens - 1
    client.ms += ms
  }
  await figures.refresh()
  const totals = figures.totals().get('default/a')
  expect(totals).toMatchObject({
    generatedTokens: client.tokens,
    promptTokens: client.prompt,
    cachedTokens: client.cached,
  })
  const clientRate = client.timed / (client.ms / 1_000)
  const readRate = (totals?.generatedTokens ?? 0) / (totals?.generationSeconds ?? 0)
  expect(readRate / clientRate).toBeGreaterThan(0.9)
  expect(readRate / clientRate).toBeLessThan(1.1)
  expect(shown.length).toBeGreaterThan(0)
})

const lastChunk = z.object({
  timings: z.object({ predicted_n: z.number(), prompt_n: z.number(), cache_n: z.number() }),
})

/** A long answer as its client sees it come: how many tokens, and how long from the first to the last. */
async function streamed(url: string, prompt: string) {
  const response = await fetch(`${url}/completion`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, n_predict: 300, ignore_eos: true, stream: true, timings_per_token: false }),
  })
  let text = ''
  let first: number | undefined
  let last = 0
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    first ??= performance.now()
    last = performance.now()
    text += chunk
  }
  const final = text.trimEnd().split('data: ').at(-1) ?? ''
  const { timings } = lastChunk.parse(JSON.parse(final))
  return {
    tokens: timings.predicted_n,
    prompt: timings.prompt_n,
    cached: timings.cache_n,
    ms: last - (first ?? last),
  }
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
