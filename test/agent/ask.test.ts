import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import type { AnswerPiece } from '../../src/contract/ask.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { Heard } from '../support/carriers/heard.ts'
import { eventually } from '../support/eventually.ts'
import { useSmolAgent } from '../support/smol-agent.ts'

const start = useSmolAgent()
const service = { namespace: 'default', name: 'smol' }

test('a question to a real model is answered in words as they come, ends where the person stops it, and is refused where nothing serves', async () => {
  await using smol = await start(['--temp', '0'])
  const { agent } = smol
  const { stateDir } = agent
  await using link = await connectToAgent({ socketPath: socketPathFor(stateDir, tmpdir()), stateDir })
  const ask = (question: string, of = service) => {
    const heard = new Heard<AnswerPiece>()
    return { heard, leave: link.stream({ name: 'ask', service: of, question }, heard) }
  }
  // What the gateway sees of its clients is told while somebody looks.
  const seen = new Heard<AgentSnapshot>()
  link.follow(seen)
  const clients = () => Object.values(seen.items.at(-1)?.figures ?? {}).flatMap(({ gateway = [] }) => gateway).length

  const { heard } = ask('What is a GPU good for? Answer in one sentence.')
  await eventually(() => heard.items.at(-1)?.end !== undefined || heard.ends.length > 0, { timeoutMs: 120_000 })
  expect(heard.ends).toEqual([])
  const last = heard.items.at(-1)?.end
  expect(heard.items.map(({ text }) => text).join('')).toContain('Graphics')
  expect(heard.items.length).toBeGreaterThan(3)
  expect(last).toMatchObject({ isCut: false })
  expect(last?.tokensPerSecond).toBeGreaterThan(0)

  const long = ask('What is the capital of France?') // To which it repeats itself for 1,024 tokens.
  await eventually(() => long.heard.items.length > 2 && clients() === 1, { timeoutMs: 60_000 })
  long.leave()
  await eventually(() => clients() === 0)

  const none = ask('hello', { ...service, name: 'other' })
  await eventually(() => none.heard.ends.length === 1)
  expect(none.heard.ends[0]).toMatchObject({
    code: 'refused',
    message: 'default/other is not serving: it is not known here.',
  })
})
