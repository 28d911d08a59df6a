import { z } from 'zod'
import type { KubeSim } from '../test/support/kube-sim/kube-sim.ts'

const slice = z.object({
  endpoints: z.array(z.object({ addresses: z.array(z.string()), conditions: z.object({ ready: z.boolean() }) })),
  ports: z.array(z.object({ name: z.string(), port: z.number() })),
})
const completion = z.object({ choices: z.array(z.object({ message: z.object({ content: z.string() }) })) })

/** A model of random weights answers in bytes; this makes letters of them where the server knows grammars. */
const words = 'root ::= [a-z] [a-z ]*'

export interface Answer {
  readonly url: string
  /** How the URL was really reached from here. */
  readonly via: string
  readonly content: string
}

/**
 * What a Pod's request for `http://<name>:8080` comes down to: the Service's port by name, the slice's ready address
 * for it. This host's own address is answered over loopback, as the demo stays on this machine.
 */
export async function askLikeAPod(cluster: KubeSim, name: string, question: string): Promise<Answer> {
  const [found] = cluster.list('endpointslices', { labelSelector: `kubernetes.io/service-name=${name}` })
  const { endpoints, ports } = slice.parse(found)
  const address = endpoints.find(({ conditions }) => conditions.ready)?.addresses[0]
  const port = ports.find((one) => one.name === 'http')?.port
  if (address === undefined || port === undefined) throw new Error(`No ready address is published for ${name}.`)
  const via = `http://127.0.0.1:${port}`
  return { url: `http://${address}:${port}`, via, content: await askAt(via, name, question) }
}

/** As a program of this machine asks the client proxy: by the model's name. */
export async function askAt(url: string, name: string, question: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: name,
      messages: [{ role: 'user', content: question }],
      max_tokens: 24,
      temperature: 0,
      grammar: words,
    }),
  })
  if (!response.ok) throw new Error(`${name} answered HTTP ${response.status}: ${await response.text()}`)
  const { choices } = completion.parse(await response.json())
  return choices[0]?.message.content ?? ''
}
