import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { readGgufHeader } from '../../../../src/agent-core/models/gguf/file-header.ts'
import type { GgufHeader } from '../../../../src/agent-core/models/gguf/gguf.ts'
import { readGgufHeaderOverHttp } from '../../../../src/agent-core/models/gguf/http-header.ts'
import { createTransport } from '../../../../src/agent-core/models/download/transport.ts'
import { eventually } from '../../../support/eventually.ts'
import { writeLlamaGguf } from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let small: Server
let large: Server

/** 170 MiB of model, of which 9 MiB are its header. */
const largeModel = {
  vocabulary: 150_000,
  embedding: 128,
  weights: 'hole',
  metadata: { 'tokenizer.ggml.merges': Array.from({ length: 150_000 }, (_, index) => `Ġto ken${index}`) },
} as const

beforeAll(async () => {
  folder = await temporaryFolder()
  await writeLlamaGguf(path.join(folder.dir, 'small.gguf'))
  await writeLlamaGguf(path.join(folder.dir, 'large.gguf'), largeModel)
  small = await serve(path.join(folder.dir, 'small.gguf'))
  large = await serve(path.join(folder.dir, 'large.gguf'))
})

afterAll(async () => {
  small.process.kill()
  large.process.kill()
  await folder[Symbol.asyncDispose]()
})

test.each(['ranges', 'no-ranges', 'no-length', 'refused-ranges'])(
  'from a server with %s comes the same header as from the file',
  async (way) => {
    expect(await headerOver(`${small.url}/${way}`)).toEqual(await readGgufHeader(small.file))
  },
)

test.each(['ranges', 'no-ranges', 'no-length'])(
  'from a server with %s what comes after a header with 150,000 tokens is not fetched',
  async (way) => {
    const before = (await sending()).sentBytes
    const header = await headerOver(`${large.url}/${way}`)
    // The file does not end by itself: its server waits until the client reads on or hangs up.
    await eventually(async () => (await sending()).open === 0, { what: 'the connection to be hung up' })
    const sent = (await sending()).sentBytes - before
    expect({
      header,
      // What the sockets of both sides hold is sent but never read.
      sent: sent >= header.dataOffset && sent <= 32 * 1024 ** 2,
    }).toEqual({ header: await readGgufHeader(large.file), sent: true })
  },
)

test.each([
  ['html', 'is a web page, not a GGUF file: give the address of the file itself, and see whether it needs a login.'],
  ['missing', 'answered 404 Not Found: correct spec.source or put the file there.'],
  ['cut', 'ends after 3000 bytes, in the middle of its GGUF header: fetch it again.'],
])('an answer that is %s is one sentence, without the secrets in the address', async (way, sentence) => {
  const secret = `${small.url.replace('//', '//user:password@')}/${way}?token=secret`
  await expect(headerOver(secret)).rejects.toMatchObject({ message: `${small.url}/${way} ${sentence}` })
})

test('a server that begins and then says nothing is given up with a sentence', async () => {
  await expect(headerOver(`${small.url}/silent`, { limitMs: 500 })).rejects.toMatchObject({
    message: `${small.url}/silent did not send its GGUF header within 0.5 s: the agent tries again.`,
  })
})

test('an abort ends the wait with its own reason', async () => {
  const reason = new Error('nobody wants it')
  await expect(headerOver(`${small.url}/silent`, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  const stopped = new AbortController()
  const reading = headerOver(`${small.url}/silent`, { signal: stopped.signal })
  await eventually(async () => (await sending(small)).open > 0)
  stopped.abort(reason)
  await expect(reading).rejects.toBe(reason)
})

async function headerOver(url: string, how: { signal?: AbortSignal; limitMs?: number } = {}): Promise<GgufHeader> {
  await using transport = await createTransport({ env: {} })
  return await readGgufHeaderOverHttp({ url }, { transport, signal: new AbortController().signal, ...how })
}

interface Server {
  readonly url: string
  readonly file: string
  readonly process: ChildProcess
}

const listening = z.object({ port: z.number() })

async function serve(file: string): Promise<Server> {
  const script = path.join(import.meta.dirname, 'file-server.ts')
  const server = spawn(process.execPath, [script, file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(server.stdout, 'data')) as [Buffer]
  const { port } = listening.parse(JSON.parse(line.toString()))
  return { url: `http://127.0.0.1:${port}`, file, process: server }
}

const whatIsSent = z.object({ sentBytes: z.number(), open: z.number() })

const sending = async ({ url } = large) => whatIsSent.parse(await (await fetch(`${url}/sending`)).json())
