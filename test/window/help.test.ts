import { readFile } from 'node:fs/promises'
import { strFromU8, unzipSync } from 'fflate'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('what is mended from Help is asked about again, and what is over is gone', async () => {
  await using window = await show(scenes.help)
  const { page, agent } = window
  const question = page.getByRole('heading', { name: 'Is an agent running here?' })
  await question.waitFor()
  const before = agent.queriesOf('doctor').length
  const { findings = [], tookMs = 0 } = agent.known.doctor ?? {}
  agent.known.doctor = { findings: findings.filter(({ id }) => id !== 'agent'), tookMs }
  agent.answers.push({ outcome: 'done', message: 'Requests are sent here again.' })
  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByText('Requests are sent here again.').waitFor()
  await question.waitFor({ state: 'detached' })
  expect(agent.asked.map(({ command }) => command)).toEqual([{ name: 'resumeNode' }])
  expect(agent.queriesOf('doctor')).toHaveLength(before + 1)

  await page.getByRole('button', { name: 'Look again' }).click()
  await eventually(() => agent.queriesOf('doctor').length === before + 2)
})

test('what the documentation says about a finding is read in place, without a network', async () => {
  await using window = await show(scenes.help)
  const { page } = window
  const more = page.getByRole('button', { name: 'Read more: Does this machine stay awake for requests?' })
  await more.click()
  await page.getByRole('heading', { name: 'Sleep and battery' }).waitFor()
  await page.getByText('--sleep-policy').first().waitFor()
  expect(await page.getByRole('heading', { name: 'States' }).count()).toBe(0)
  await more.click()
  await page.getByRole('heading', { name: 'Sleep and battery' }).waitFor({ state: 'detached' })
})

test('a report is shown before it is saved, and the zip file has what was shown', async () => {
  await using window = await show(scenes['help-report'])
  const { page } = window
  await page.getByText('servers/default-phi-4-mini.log').waitFor()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Save as a zip file' }).click(),
  ])
  expect(download.suggestedFilename()).toMatch(/^metalbar-report-\d{4}-\d\d-\d\d\.zip$/)
  const files = unzipSync(await readFile(await download.path()))
  expect(Object.keys(files)).toEqual(['about.json', 'servers/default-phi-4-mini.log'])
  expect(strFromU8(files['about.json'] ?? new Uint8Array())).toBe('{}')
  await page.getByRole('button', { name: 'Discard' }).click()
  await page.getByRole('button', { name: 'Collect…' }).waitFor()
})
