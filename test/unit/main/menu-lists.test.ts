import { expect, test } from 'vitest'
import { LinkError, type AgentLink } from '../../../src/contract/client.ts'
import type { Answer } from '../../../src/contract/queries.ts'
import { createAgentView } from '../../../src/main/agent/agent-view.ts'
import { menuLists } from '../../../src/main/tray/menu-lists.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

const nothing = () => Promise.resolve({})

test('an agent or a disk that hangs is asked once however often the menu is opened, beside the others, and again when it has answered', async () => {
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
  const beforeMenu = menuLists(link, createAgentView(), () => hang('own states'), 1)
  await beforeMenu()
  await beforeMenu()
  const once = [...asked]
  for (const one of fail) one(new LinkError('gone', 'It hung.'))
  fail = []
  await new Promise(setImmediate)
  await beforeMenu()
  expect([once, asked]).toEqual([
    ['contexts', 'hostAddresses', 'snapshot', 'own states'],
    [...once, ...once],
  ])
})

test('a list that is not answered in time stands there as it was, and the next time as it was answered then', async () => {
  const view = createAgentView()
  const contexts = Promise.withResolvers<Answer<'contexts'>>()
  const never = new Promise<never>(() => undefined)
  const link = {
    follow: () => () => undefined,
    stream: () => () => undefined,
    command: () => never,
    snapshot: () => never,
    query: ({ name }) => (name === 'contexts' ? contexts.promise : never),
  } as AgentLink
  const before = { kubeconfig: '/kubeconfig', contexts: [] }
  view.setState({ contexts: before })
  await menuLists(link, view, nothing, 1)()
  const shown = view.getState().contexts
  const after = { kubeconfig: '/kubeconfig', contexts: [{ name: 'homelab', server: '', inUse: true, isDefault: true }] }
  contexts.resolve(after)
  await new Promise(setImmediate)
  expect([shown, view.getState().contexts]).toEqual([before, after])
})

test.for([
  ['an older one of the same agent is left', { revision: 6 }, 7],
  ['a newer one takes its place', { revision: 8 }, 8],
  ['one of an agent that has started since counts, although it begins again', { bootId: 'next', revision: 1 }, 1],
] as const)('of the figures that the menu asks for %s', async ([, asked, shown]) => {
  const view = createAgentView()
  view.setState({ snapshot: sampleSnapshot({ revision: 7 }) })
  const link: Pick<AgentLink, 'snapshot' | 'query'> = {
    snapshot: () => Promise.resolve(sampleSnapshot(asked)),
    query: () => Promise.reject(new LinkError('gone', 'It is gone.')),
  }
  await menuLists(link, view, nothing)()
  expect(view.getState().snapshot?.revision).toBe(shown)
})
