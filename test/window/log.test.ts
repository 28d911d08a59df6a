import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { eventually } from '../support/eventually.ts'
import { FakeAgent } from '../support/window/fake-agent.ts'
import { output, ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

const chunk = (lines: string[], fileId = 'run-2') => ({
  lines,
  start: { fileId, offset: 2_400 },
  end: { fileId, offset: 2_500 },
})

const lastLine = (page: Page) => page.getByRole('log').locator('p').last().textContent()
const isAtEnd = (page: Page) =>
  page.getByRole('log').evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 2)

test('the log follows what the server prints, and goes on where it was read to', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  agent.print(chunk(['the newest line']))
  await eventually(async () => (await lastLine(page)) === 'the newest line')
  expect({ atEnd: await isAtEnd(page), from: agent.logStreams[0]?.from }).toEqual({ atEnd: true, from: output.end })
})

test('scrolled up it stays where it is and counts what is missed, and at the end it follows again', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  const box = page.getByRole('log')
  await box.evaluate((element) => element.scrollTo({ top: 40 }))
  await page.getByText('Paused', { exact: true }).waitFor()
  agent.print(chunk(['one', 'two']))
  await page.getByText('Paused · 2 new lines').waitFor()
  const whilePaused = {
    top: await box.evaluate((element) => element.scrollTop),
    seen: await page.getByText('two', { exact: true }).count(),
  }

  await page.getByRole('button', { name: 'Follow' }).click()
  await eventually(async () => (await lastLine(page)) === 'two')
  expect({
    whilePaused,
    atEnd: await isAtEnd(page),
    button: await page.getByRole('button', { name: 'Follow' }).count(),
  }).toEqual({
    whilePaused: { top: 40, seen: 0 },
    atEnd: true,
    button: 0,
  })
})

test('what is missing and where a new run begins is said between the lines', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  agent.print({ ...chunk(['first of the next run'], 'run-3'), gap: 'Skipped 7 lines.' })
  await page.getByText('first of the next run').waitFor()
  const last = await page.getByRole('log').locator('p').allTextContents()
  expect(last.slice(-3)).toEqual(['A new run begins.', 'Skipped 7 lines.', 'first of the next run'])
})

test('the previous run is shown where there is one, and why not where there is none', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await page.getByRole('radio', { name: 'Previous' }).click()
  await page.getByText('No earlier run is kept.').waitFor()
  agent.logs.previous = { ...chunk(['how it ended'], 'run-1'), file: '/runs/1/output.log' }
  await page.getByRole('radio', { name: 'This run' }).click()
  await page.getByRole('radio', { name: 'Previous' }).click()
  await page.getByText('how it ended').waitFor()
  expect(agent.logStreams.length).toBe(2)
})

test('a log that is not there yet appears with the process that writes it', async () => {
  const services = [{ ...ready, pid: 1 }]
  await using window = await show({
    agent: () => new FakeAgent(sampleSnapshot({ services })),
    open: ready.name,
    height: 980,
  })
  const { page, agent } = window
  await page.getByText('It has printed nothing yet.').waitFor()
  agent.logs.current = chunk(['hello'])
  agent.show(sampleSnapshot({ revision: 2, services: [{ ...ready, revision: 2, pid: 2 }] }))
  await eventually(async () => (await lastLine(page)) === 'hello')
})

test('a stream that breaks alone is opened again where it was read to', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  agent.print(chunk(['before']))
  await eventually(async () => (await lastLine(page)) === 'before')
  agent.breakLogs()
  await page.getByText('The stream broke.').waitFor()
  const isSeen = await isAtEnd(page)
  await eventually(() => agent.logStreams.length === 2)
  agent.print(chunk(['after']))
  await eventually(async () => (await lastLine(page)) === 'after')
  const told = await page.getByText('The stream broke.').count()
  expect({ isSeen, from: agent.logStreams[1]?.from, told }).toEqual({ isSeen: true, from: chunk([]).end, told: 0 })
})
