import { expect, test } from 'vitest'
import { partsOf } from '../../../src/renderer/sentence-parts.ts'
import { growsNoFaster, growth } from '../../support/processor-time.ts'

const plain = (text: string) => ({ kind: 'plain', text })
const whole = (...pieces: string[]) => ({ kind: 'whole', pieces })

test.each([
  { what: 'nothing', sentence: '', parts: [] },
  { what: 'words', sentence: 'It serves.', parts: [plain('It serves.')] },
  {
    what: 'a flag with the stop after it',
    sentence: 'or name one with --kubeconfig.',
    parts: [plain('or name one with '), whole('--kubeconfig.')],
  },
  { what: 'a dash between words', sentence: 'one - or two', parts: [plain('one - or two')] },
  {
    what: 'a command, and a flag in it',
    sentence: 'run `metal-agent power install` once',
    parts: [plain('run '), { kind: 'code', parts: [whole('metal-agent'), plain(' power install')] }, plain(' once')],
  },
  { what: 'a single backtick', sentence: 'a ` b', parts: [plain('a ` b')] },
  {
    what: 'a URL too long for a line',
    sentence: 'http://phi-4-mini.default.svc.cluster.local:8080',
    parts: [whole('http://', 'phi-4-mini', '.default', '.svc', '.cluster', '.local', ':8080')],
  },
  {
    what: 'a path too long for a line',
    sentence: '/Users/me/Library/Metalbar/start-settings.json',
    parts: [whole('/Users/', 'me/', 'Library/', 'Metalbar/', 'start-settings', '.json')],
  },
])('the parts of $what', ({ sentence, parts }) => {
  expect(partsOf(sentence)).toEqual(parts)
})

test('a hostile sentence of dashes and backticks takes no longer than its length asks for', async () => {
  const hostile = (length: number) => `${'-'.repeat(length)} ${'`'.repeat(length)} ${'a'.repeat(length)}`
  expect(await growth(20_000, (length) => () => partsOf(hostile(length)))).toBeLessThan(growsNoFaster)
})
