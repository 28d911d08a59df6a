import { expect, test } from 'vitest'
import { cleanTexts } from '../../src/contract/clean-text.ts'
import { eventually } from '../support/eventually.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { withNews } from '../support/window/scene-agents.ts'
import { working } from '../support/window/scene-gauges.ts'
import { ready } from '../support/window/scene-services.ts'
import { useStage } from './stage.ts'

const show = useStage()

/** Markup, a script, text that runs backwards, a terminal's control sequence, and characters that nobody sees. */
const hostile = (word: string) =>
  `<img src=x onerror="document.title='${word}'"><script>document.title='${word}'</script> \u202e${word}\u202c \u001b[31m\u0000 a\u200bb\u2066c\ufeff`
const at = '2026-01-02T03:04:02.000Z'
const of = { namespace: 'default', name: ready.name }

/** As an agent sends it on its way out: no control, bidi or invisible character is left. */
function hostileAgent() {
  const agent = withNews()
  const service = { ...ready, revision: 2, name: hostile('name'), model: hostile('model'), message: hostile('message') }
  agent.show(cleanTexts(sampleSnapshot({ revision: 2, services: [service], notices: [hostile('notice')] })))
  agent.logs.current = cleanTexts({
    ...{ lines: [hostile('log'), hostile('line')], file: '/log' },
    ...{ start: { fileId: 'a', offset: 0 }, end: { fileId: 'a', offset: 9 } },
  })
  agent.known.events = cleanTexts({
    events: [
      {
        ...{ at, type: 'Warning', reason: hostile('reason'), message: hostile('event'), count: 1 },
        ...{ service: of, source: hostile('source') },
      },
    ],
    hasMore: false,
  })
  agent.known.conditions = cleanTexts({
    conditions: [{ type: hostile('type'), status: 'True', reason: hostile('because'), message: hostile('condition') }],
  })
  agent.known.history = cleanTexts({
    entries: [{ id: 10, at, kind: 'crashed' as const, message: hostile('history') }],
    hasMore: false,
  })
  return agent
}

test('markup, control, bidi and invisible characters in names, logs, Events, conditions, notices and history do nothing', async () => {
  await using window = await show({ agent: hostileAgent })
  const { page, complaints } = window
  const title = await page.title()
  const said = () => page.locator('body').innerText()
  await eventually(async () => (await said()).includes("document.title='notice'"))
  const inList = await said()
  await page.getByRole('option').click()
  await eventually(async () => (await page.getByRole('log').locator('p').count()) === 2)
  for (const word of ['name', 'model', 'message', 'log', 'line', 'reason', 'event', 'source', 'type'])
    await eventually(async () => (await said()).includes(`document.title='${word}'`), { what: word })
  const inDetail = await said()
  await page.getByRole('tab', { name: 'Activity' }).click()
  await eventually(async () => (await said()).includes("document.title='history'"))
  const all = inList + inDetail + (await said())
  const invisible = /[\p{Bidi_Control}\u200b\ufeff]|(?![\n\t])\p{Cc}/u.exec(all)
  expect({
    title: await page.title(),
    made: await page.locator('img, script:not([src])').count(),
    invisible: invisible?.[0],
    complaints,
  }).toEqual({ title, made: 0, invisible: undefined, complaints: [] })
})

test('a command line that lost its quotes is shown and cannot be copied', async () => {
  const unquoted = () => {
    const agent = working()
    agent.known.server = { commandLine: 'llama-server --model /a;b', isUnquoted: true, crashLines: [] }
    return agent
  }
  const copies = async (agent: () => ReturnType<typeof working>) => {
    await using window = await show({ agent })
    const { page } = window
    await page.getByRole('option').click()
    await page.locator('pre', { hasText: 'llama-server' }).waitFor()
    return await page.getByRole('button', { name: 'Copy command line' }).count()
  }
  expect([await copies(working), await copies(unquoted)]).toEqual([1, 0])
})
