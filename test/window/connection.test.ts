import { expect, test } from 'vitest'
import { LinkError } from '../../src/contract/client.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { eventually } from '../support/eventually.ts'
import { ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('an agent that restarts is found again by itself, and only what it says is shown', async () => {
  await using window = await show(scenes.services)
  const { page, agent } = window
  agent.leave()
  await page.getByText('No agent', { exact: true }).waitFor()
  agent.comeBack(sampleSnapshot({ bootId: 'boot-2', services: [{ ...ready, message: 'Adopted.' }] }))
  await page.getByText('Adopted.').waitFor()
  expect({
    rows: await page.getByRole('option').count(),
    gone: await page.getByText('What you see is from').count(),
  }).toEqual({
    rows: 1,
    gone: 0,
  })
})

test('the log of an open service goes on where it stopped when the agent is back', async () => {
  await using window = await show(scenes['detail-tall'])
  const { page, agent } = window
  await eventually(() => agent.logStreams.length === 1)
  const end = { fileId: 'run-2', offset: 9_000 }
  agent.print({ lines: ['before'], start: end, end })
  await page.getByText('before', { exact: true }).waitFor()
  agent.leave()
  agent.comeBack(sampleSnapshot({ bootId: 'boot-2', services: [ready] }))
  await eventually(() => agent.logStreams.length === 2)
  expect(agent.logStreams[1]?.from).toEqual(end)
})

test('one who has no access is told once and may try again', async () => {
  await using window = await show(scenes.services)
  const { page, agent } = window
  agent.leave(new LinkError('refused', 'This page has no access any more: run `metal-agent ui`.'))
  await page.getByText('This page has no access any more').waitFor()
  expect(await page.getByRole('option').count()).toBe(0)
  agent.comeBack(sampleSnapshot({ services: [ready] }))
  await page.getByRole('button', { name: 'Try now' }).click()
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
})

test('an open service that is deleted gives way to the list', async () => {
  await using window = await show(scenes.detail)
  const { page, agent } = window
  agent.show(sampleSnapshot({ revision: 2, services: [] }))
  await page.getByRole('heading', { name: 'No service for this machine yet' }).waitFor()
  expect(await page.getByRole('heading', { name: 'phi-4-mini' }).count()).toBe(0)
})
