import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { ready } from '../support/window/scene-services.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('conditions and Events are asked for anew when the service is another, and not when a figure is', async () => {
  await using window = await show(scenes['detail-news'])
  const { page, agent } = window
  const asks = (name: string) => agent.queried.filter((one) => one.name === name).length
  await page.getByText('Crashed, 3 times').waitFor()
  const { conditions: known } = agent.known
  if (known === undefined) throw new Error('The scene has no conditions.')
  for (let figure = 1; figure < 5; figure += 1)
    agent.show({ ...agent.shown, revision: agent.shown.revision + 1, figures: { ready: { requestsInFlight: figure } } })
  await page.getByText('4 requests').waitFor()
  agent.known.conditions = { conditions: known.conditions.map((one) => ({ ...one, status: 'Unknown' })) }
  const before = { conditions: asks('conditions'), events: asks('events') }
  const services = [{ ...ready, revision: 2, message: 'Another word.' }]
  agent.show({ ...agent.shown, revision: agent.shown.revision + 1, services })
  await page.getByText('Available: Unknown').waitFor()
  await eventually(() => asks('events') === 2)
  expect({ before, after: asks('conditions') }).toEqual({ before: { conditions: 1, events: 1 }, after: 2 })
})

test('a refusal of the Events leaves the conditions', async () => {
  await using window = await show(scenes['detail-news'])
  const { page, agent } = window
  delete agent.known.events
  agent.show({ ...agent.shown, revision: 2, services: [{ ...ready, revision: 2 }] })
  await page.getByText('Nobody asks for events here.').waitFor()
  await page.getByText('Available: False').waitFor()
})

test('a pod is given its own line to copy', async () => {
  await using window = await show(scenes['detail-news'])
  const { page } = window
  await page.getByRole('button', { name: 'Copy curl for pods' }).click()
  const copied = await page.evaluate<string>('navigator.clipboard.readText()')
  expect(copied).toContain('curl http://phi-4-mini.default.svc.cluster.local:8080/v1/chat/completions')
})
