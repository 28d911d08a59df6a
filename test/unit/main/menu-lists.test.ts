import { expect, test } from 'vitest'
import { LinkError, type AgentLink } from '../../../src/contract/client.ts'
import { createAgentView } from '../../../src/main/agent-view.ts'
import { menuLists } from '../../../src/main/menu-lists.ts'

test('an agent that hangs is asked once however often the menu is opened, and again when it has answered', async () => {
  const asked: string[] = []
  let fail: ((error: unknown) => void)[] = []
  const hang = <T>(what: string): Promise<T> => {
    asked.push(what)
    return new Promise((_, reject) => fail.push(reject))
  }
  const link: AgentLink = {
    follow: () => () => undefined,
    stream: () => () => undefined,
    command: () => hang('command'),
    snapshot: () => hang('snapshot'),
    query: ({ name }) => hang(name),
  }
  const beforeMenu = menuLists(link, createAgentView(), 1)
  await beforeMenu()
  await beforeMenu()
  const once = [...asked]
  for (const one of fail) one(new LinkError('gone', 'It hung.'))
  fail = []
  await new Promise(setImmediate)
  await beforeMenu()
  expect([once, asked]).toEqual([
    ['contexts', 'hostAddresses', 'snapshot'],
    [...once, ...once],
  ])
})
