import { request as httpRequest } from 'node:http'
import { json } from 'node:stream/consumers'
import { z } from 'zod'
import type { KubeSim } from '../test/support/kube-sim/kube-sim.ts'

const slice = z.object({
  endpoints: z.array(z.object({ addresses: z.array(z.string()), conditions: z.object({ ready: z.boolean() }) })),
  ports: z.array(z.object({ name: z.string(), port: z.number() })),
})
const completion = z.object({ choices: z.array(z.object({ message: z.object({ content: z.string() }) })) })

/** Makes letters of the bytes that a model of random weights answers with. */
const letters = 'root ::= [a-z] [a-z ]*'

export interface Question {
  readonly question: string
  /** Whether the model is one of random weights. */
  readonly isRandom: boolean
}

export interface Answer {
  /** Where the slice sends it. */
  readonly url: string
  readonly content: string
}

/**
 * A Pod's request for `http://<name>:8080` as the cluster passes it on: to the slice's ready address and its port, with the name that the Pod
 * asked for as its Host.
 */
export async function askLikeAPod(cluster: KubeSim, name: string, question: Question): Promise<Answer> {
  const [found] = cluster.list('endpointslices', { labelSelector: `kubernetes.io/service-name=${name}` })
  const { endpoints, ports } = slice.parse(found)
  const address = endpoints.find(({ conditions }) => conditions.ready)?.addresses[0]
  const port = ports.find((one) => one.name === 'http')?.port
  if (address === undefined || port === undefined) throw new Error(`No ready address is published for ${name}.`)
  const url = `http://${address}:${port}`
  return { url, content: await askAt(url, name, question, { host: `${name}:8080` }) }
}

/** As a program of this machine asks the client proxy: by the model's name. */
export async function askAt(
  url: string,
  name: string,
  { question, isRandom }: Question,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; body: unknown }>()
  const sent = httpRequest(
    `${url}/v1/chat/completions`,
    { method: 'POST', headers: { 'content-type': 'application/json', ...headers } },
    (answer) => {
      json(answer).then((body) => resolve({ status: answer.statusCode, body }), reject)
    },
  )
  sent.on('error', reject)
  sent.end(
    JSON.stringify({
      model: name,
      messages: [{ role: 'user', content: question }],
      max_tokens: isRandom ? 24 : 48,
      temperature: 0,
      ...(isRandom && { grammar: letters }),
    }),
  )
  const { status, body } = await promise
  if (status !== 200) throw new Error(`${name} answered HTTP ${status}: ${JSON.stringify(body)}`)
  const { choices } = completion.parse(body)
  return choices[0]?.message.content ?? ''
}
