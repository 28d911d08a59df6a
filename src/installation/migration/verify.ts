import { z } from 'zod'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { parseEndpointSlice, parseService, resources } from '../../agent-core/kube/resources.ts'
import { publishedOf, serviceNameOf } from '../../agent-core/publishing/objects.ts'
import { parseJson } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { FoundService } from './cluster-look.ts'
import { isHeldByOurs } from './slice-holder.ts'

const answerLimitMs = 60_000
const connectLimitMs = 5_000
/** One token with all that is said about it has a few KiB; what answers at the port may be anything. */
const maxAnswerBytes = 1024 * 1024

const completion = z.object({ choices: z.array(z.unknown()).min(1) })

/** One sentence about a service that was moved; `isWell` where nothing is missing. */
export async function verify(
  api: KubeApi,
  service: FoundService,
): Promise<{ readonly isWell: boolean; readonly sentence: string }> {
  const { namespace, name, spec } = service
  const key = `${namespace}/${name}`
  const place = serviceNameOf(name)
  const [slice, { spec: found }] = await Promise.all([
    api.get(resources.endpointSlices, namespace, place).then(parseEndpointSlice),
    api.get(resources.services, namespace, place).then(parseService),
  ])
  const published = publishedOf(slice)
  const isOurs = isHeldByOurs(slice)
  if (!isOurs || published?.ready !== true) {
    return { isWell: false, sentence: `${key}: its EndpointSlice is not one of this agent's that is ready.` }
  }
  const { address, port } = published
  const where = `${key}: Service ${found.clusterIP ?? place} leads to ${address}:${port}`
  try {
    const said = await answerOf(address, port, spec.mode)
    return { isWell: true, sentence: `${where}, which ${said}.` }
  } catch (error) {
    return { isWell: false, sentence: `${where}, which does not answer: ${messageOf(error)}` }
  }
}

/** By the published address; where this machine does not reach itself by that, by loopback. */
export async function answerOf(address: string, port: number, mode: string | undefined): Promise<string> {
  const isReached = await fetch(`http://${address}:${port}/health`, {
    signal: AbortSignal.timeout(connectLimitMs),
  }).then(
    async ({ body }) => {
      await body?.cancel()
      return true
    },
    () => false,
  )
  const base = `http://${isReached ? address : '127.0.0.1'}:${port}`
  const how = isReached ? '' : ' (asked by loopback, for this machine does not reach itself by its address)'
  if (mode === 'embedding' || mode === 'rerank') {
    const { status, body } = await fetch(`${base}/health`, { signal: AbortSignal.timeout(answerLimitMs) })
    await body?.cancel()
    if (status !== 200) throw new Error(`/health answers ${status}.`)
    return `is healthy${how}`
  }
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 }),
    signal: AbortSignal.timeout(answerLimitMs),
  })
  if (!response.ok) throw new Error(`a completion was answered by ${response.status}.`)
  completion.parse(parseJson(await textOf(response)))
  return `answers a completion${how}`
}

async function textOf(response: Response): Promise<string> {
  const body: ReadableStream<Uint8Array> | null = response.body
  const pieces: Uint8Array[] = []
  let length = 0
  // Leaving the loop ends the connection.
  for await (const piece of body ?? []) {
    length += piece.byteLength
    if (length > maxAnswerBytes) throw new Error(`a completion has more than ${maxAnswerBytes / 1024} KiB.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}
