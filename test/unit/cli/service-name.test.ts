import { expect, test } from 'vitest'
import { serviceNamed, VerbError } from '../../../src/cli/agent-session.ts'

const services = [
  { namespace: 'default', name: 'phi' },
  { namespace: 'team', name: 'phi' },
  { namespace: 'team', name: 'qwen' },
]

test('a name alone is enough where it is the only one', () => {
  expect([serviceNamed('qwen', services), serviceNamed('team/phi', services)]).toEqual([
    { namespace: 'team', name: 'qwen' },
    { namespace: 'team', name: 'phi' },
  ])
})

test('a namespace beside the name chooses among services of the same name, as with kubectl', () => {
  expect(serviceNamed('phi', services, 'team')).toEqual({ namespace: 'team', name: 'phi' })
  expect(serviceNamed('team/phi', services, 'team')).toEqual({ namespace: 'team', name: 'phi' })
})

test('a namespace that contradicts the name, or has no such service, is refused', () => {
  expect(() => serviceNamed('team/phi', services, 'default')).toThrow(
    new VerbError('The name team/phi and --namespace default contradict each other: give one of them.'),
  )
  expect(() => serviceNamed('qwen', services, 'default')).toThrow(
    new VerbError(
      'There is no service qwen in namespace default on this machine; it has default/phi, team/phi, team/qwen.',
    ),
  )
})

test.each([
  ['phi', services, 'Several services are called phi: use default/phi or team/phi.'],
  ['llama', services, 'There is no service llama on this machine; it has default/phi, team/phi, team/qwen.'],
  ['default/qwen', services.slice(0, 1), 'There is no service default/qwen on this machine; it has default/phi.'],
  ['phi', [], 'There is no service phi on this machine; it has none.'],
])('%s that is not one service is refused with the names there are', (name, known, sentence) => {
  expect(() => serviceNamed(name, known)).toThrow(new VerbError(sentence))
})
