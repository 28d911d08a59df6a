import { expect, test } from 'vitest'
import { ShellApp } from '../support/shell-app.ts'
import { servingWorld } from '../support/serving-world.ts'

test('the icon and the menu say what the agent does', async () => {
  await using world = await servingWorld()
  await using app = await ShellApp.start({ kubeconfig: world.sim.kubeconfig(), preferences: world.preferences })
  const idle = await app.icon('idle')
  world.apply('tiny')
  const serving = await app.icon('serving')
  expect({ idle, serving, menu: await app.menu() }).toEqual({})
})
