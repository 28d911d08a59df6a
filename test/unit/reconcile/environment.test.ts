import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { environmentNotice, environmentOf } from '../../../src/agent-core/reconcile/environment.ts'

const secret = { secretKeyRef: { name: 'hub', key: 'token' } }

test('variables with a value are passed on, those a Pod would look up are not, and a person is told', () => {
  const spec = inferenceServiceSpec.parse({
    env: [
      { name: 'PLAIN', value: 'x' },
      { name: 'EMPTY' },
      { name: 'TOKEN', valueFrom: secret },
      { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
    ],
  })
  expect([environmentOf(spec), environmentNotice(spec)]).toEqual([
    { PLAIN: 'x', EMPTY: '' },
    'It runs without TOKEN, NODE of spec.env, whose valueFrom only a Pod can read: give a literal value where it is needed.',
  ])
})

test('where every variable has its value there is nothing to tell', () => {
  expect(environmentNotice(inferenceServiceSpec.parse({ env: [{ name: 'PLAIN', value: 'x' }] }))).toBeUndefined()
})
