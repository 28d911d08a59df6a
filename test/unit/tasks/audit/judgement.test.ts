import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { exceptionsShape, judge, type Exceptions } from '../../../../tasks/audit/judgement.ts'

/** In the form that npm 11 prints. */
const printed = await readFile(path.join(import.meta.dirname, 'two-advisories.json'), 'utf8')
const bundled = new Set(['node_modules/undici', 'node_modules/@kubernetes/client-node', 'node_modules/zod'])
const today = '2026-11-23'
const url = 'https://github.com/advisories/GHSA-c76h-2ccp-4975'
const line = `undici >=6.0.0 <6.21.1 (moderate): Use of Insufficiently Random Values in undici, ${url}`
const exception: Exceptions[number] = {
  advisory: url,
  package: 'undici',
  reason: 'Nothing here sends multipart bodies, which it is about.',
  until: '2027-01-31',
}

test('an advisory concerns what is released, once, and no tool that only builds', () => {
  expect(judge({ printed, bundled, exceptions: [], today })).toEqual({ outcome: 'concerned', lines: [line] })
  expect(judge({ printed, bundled: new Set(['node_modules/zod']), exceptions: [], today })).toEqual({
    outcome: 'clean',
    lines: ['No advisory concerns what is released (packages: 1).'],
  })
})

test('an exception holds for its package and advisory until its day', () => {
  const ask = (more: Partial<Exceptions[number]>) =>
    judge({ printed, bundled, exceptions: [{ ...exception, ...more }], today })
  expect(ask({})).toEqual({
    outcome: 'clean',
    lines: ['No advisory concerns what is released (packages: 3; exceptions: 1).'],
  })
  expect(ask({ until: today })).toEqual({
    outcome: 'concerned',
    lines: [line, `The exception for undici (${url}) has ended on ${today}: look at it again.`],
  })
  expect(ask({ package: 'zod' })).toEqual({
    outcome: 'concerned',
    lines: [line, `The exception for zod (${url}) no longer concerns anything: remove it.`],
  })
  expect(ask({ advisory: 'https://github.com/advisories/GHSA-0000-0000-0000' }).outcome).toBe('concerned')
})

test.each([
  [
    'refuses',
    '{"message":"405 Method Not Allowed - POST https://registry.example/-/npm/v1/security/advisories/bulk"}',
    '405 Method Not Allowed - POST the registry',
  ],
  [
    'is not reached',
    '{"message":"request to https://registry.example/-/npm/v1/security/advisories/bulk failed, reason: getaddrinfo ENOTFOUND."}',
    'request to the registry failed, reason: getaddrinfo ENOTFOUND',
  ],
  ['answers with no JSON', '<html>', 'its answer was not understood'],
  ['answers nothing', '', 'its answer was not understood'],
  ['answers in another form', '{"auditReportVersion":3}', 'its answer was not understood'],
])('where the registry %s, nothing is called clean', (_, answer, why) => {
  expect(judge({ printed: answer, bundled, exceptions: [], today })).toEqual({
    outcome: 'unknown',
    lines: [`The registry could not be asked about advisories: ${why}.`],
  })
})

test('the exceptions that are kept have a reason and a day', async () => {
  const kept = await readFile(path.join(import.meta.dirname, '../../../../tasks/audit/exceptions.json'), 'utf8')
  expect(exceptionsShape.safeParse(JSON.parse(kept)).success).toBe(true)
  expect(exceptionsShape.safeParse([{ ...exception, reason: '' }]).success).toBe(false)
  expect(exceptionsShape.safeParse([{ ...exception, until: 'later' }]).success).toBe(false)
})
