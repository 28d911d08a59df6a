import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { doctorChecks } from '../../../src/agent-core/doctor/checks.ts'
import { unreached } from '../../../src/agent-core/doctor/cluster-checks.ts'
import { examine, pass, type Check } from '../../../src/agent-core/doctor/doctor.ts'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { renderReport } from '../../../src/cli/doctor.ts'
import { docsPage } from '../../../src/cli/docs-page.ts'
import { doctorReport, type DoctorFinding, partsOfPage, sectionOf } from '../../../src/contract/doctor.ts'
import { summaryWords } from '../../../src/contract/words.ts'
import { pages } from '../../../src/renderer/docs-pages.ts'
import { docsOfDoctor } from '../../../tasks/docs-texts.ts'
import { patientOf } from '../../support/patient.ts'

const all = doctorChecks.flatMap(([, checks]) => checks)

test('every question has a name of its own, is a question, and leads to a page that is there', async () => {
  expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
  for (const { id, asks, page } of all) {
    expect([id, asks]).toEqual([expect.stringMatching(/^[a-z][a-z-]+$/), expect.stringMatching(/\?$/)])
    const { file, anchor } = partsOfPage(page)
    const text = await readFile(join('docs', file), 'utf8')
    const section = sectionOf(text, anchor)
    expect([page, anchor === undefined ? section === text : section.length < text.length]).toEqual([page, true])
    // Both a terminal and the window have it.
    expect([page, await docsPage(page)]).toEqual([page, section])
    expect(docsOfDoctor).toContain(file)
    expect(Object.keys(pages).toSorted()).toEqual(docsOfDoctor)
  }
})

describe('a question', () => {
  const asked = async (answer: Check['answer'], options: Parameters<typeof examine>[2] = {}) => {
    const check: Check = { id: 'one', asks: 'Is it so?', page: 'install.md', answer }
    const { findings } = await examine(patientOf(), [['machine', [check]]], options)
    return findings[0]
  }

  test('that hangs is a warning once its time is up, and holds up no other', async () => {
    const order: string[] = []
    const over = (signal: AbortSignal) => signal.addEventListener('abort', () => order.push('its time is up'))
    const hangs: Check = {
      ...{ id: 'hangs', asks: 'Hm?', page: 'install.md' },
      answer: ({ signal }) => (over(signal), new Promise(() => undefined)),
    }
    const well: Check = {
      ...{ id: 'well', asks: 'Hm?', page: 'install.md' },
      answer: () => (order.push('the other'), pass('Yes.')),
    }
    const { findings } = await examine(patientOf(), [['machine', [hangs, well]]], { limitMs: 60 })
    expect(findings).toMatchObject([
      { id: 'hangs', verdict: 'warn', says: 'There was no answer within 0 s.' },
      { id: 'well', verdict: 'pass', says: 'Yes.' },
    ])
    expect(order).toEqual(['the other', 'its time is up'])
  })

  test('whose answer fails could not be asked, and says why', async () => {
    expect(await asked(() => Promise.reject(new Error('the disk is on fire')))).toMatchObject({
      verdict: 'warn',
      says: 'This check could not run: the disk is on fire.',
    })
    expect(
      await asked(() => {
        throw new Error('at once')
      }),
    ).toMatchObject({ verdict: 'warn' })
  })

  test('gets a signal that ends with its time', async () => {
    let ended = false
    await asked(({ signal }) => setTimeout(10_000, pass(''), { signal }).finally(() => (ended = true)), { limitMs: 20 })
    expect(ended).toBe(true)
  })

  test('may be answered with a text of any length: it is cut, and cannot steer a terminal', async () => {
    const found = await asked(() => pass(`\u001b[2J${'x'.repeat(100_000)}`))
    expect(found?.says.length).toBeLessThan(1_100)
    expect(found?.says).not.toContain('\u001b')
  })
})

describe('what keeps a request from the API server', () => {
  const coded = (code: string) =>
    new ApiError('GET /version: failed', { cause: Object.assign(new Error(code), { code }) })
  const server = 'https://api.example:6443'

  test.each([
    ['ENOTFOUND', /^The name api\.example is not known here/, /DNS/],
    ['EAI_AGAIN', /is not known here/, /DNS/],
    ['ECONNREFUSED', /^Nothing is listening at https:\/\/api\.example:6443/, /Start the cluster/],
    ['EHOSTUNREACH', /^There is no route from this machine to api\.example/, /VPN/],
    ['ENETUNREACH', /^There is no route/, /VPN/],
    ['ECONNRESET', /was closed before there was an answer/, /proxy or a firewall/],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', /^The certificate of .* is not one that the kubeconfig trusts/, /kubeconfig/],
    ['CERT_HAS_EXPIRED', /^The certificate/, /kubeconfig/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', /^The certificate/, /kubeconfig/],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /^The certificate/, /kubeconfig/],
    ['EPROTO', /does not speak TLS/, /port/],
    ['ERR_SSL_WRONG_VERSION_NUMBER', /does not speak TLS/, /port/],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', /^No secure connection/, /client certificate/],
    ['ERR_OSSL_PEM_NO_START_LINE', /^No secure connection/, /key/],
    ['EMFILE', /^This machine could not ask .*files/, /./],
    ['ETIMEDOUT', /does not answer/, /firewall/],
  ])('is told by its code %s', (code, says, todo) => {
    expect(unreached(server, coded(code), undefined)).toMatchObject({
      verdict: 'fail',
      says: expect.stringMatching(says) as string,
      action: { text: expect.stringMatching(todo) as string },
    })
  })

  test('may be the login, or another program at that address', () => {
    const answered = (code: number) => unreached(server, new ApiError('GET /version: HTTP', { code }), undefined).says
    expect(answered(401)).toMatch(/does not accept the credentials/)
    expect(answered(502)).toMatch(/does not answer as an API server/)
  })
})

test('a report on a terminal has one line for each answer, and what to do below what is not in order', () => {
  const finding = (more: Partial<DoctorFinding>): DoctorFinding => ({
    ...{ id: 'disk', subject: 'machine', asks: 'Is there room?', verdict: 'pass', says: 'Yes.', page: 'models.md' },
    ...more,
  })
  const findings = [
    finding({}),
    finding({
      ...{ id: 'agent', verdict: 'warn', says: 'It is\u001b[2J paused.' },
      action: {
        text: 'Resume this machine.',
        shell: 'metal-agent resume',
        fix: { label: 'Resume', command: { name: 'resumeNode' } },
      },
    }),
    finding({ id: 'metal', verdict: 'notApplicable', says: 'No.' }),
  ]
  const report = doctorReport.parse({ findings, tookMs: 1_234 })
  expect(renderReport(report, { stdout: { write: () => true } })).toBe(`ok       disk   Yes.
WARNING  agent  It is [2J paused.
                Resume this machine.
                $ metal-agent resume
                $ metal-agent doctor --fix agent
                More: metal-agent doctor --page agent
-        metal  No.

1 in order, 1 warning, 0 failures, 1 not applicable; took 1.2 s.
`)
  expect(summaryWords.doctor([])).toBe('0 in order, 0 warnings, 0 failures, 0 not applicable')
})
