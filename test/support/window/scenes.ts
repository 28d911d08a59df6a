import { addingScenes } from './scenes/adding.ts'
import { detailScenes } from './scenes/detail.ts'
import { firstRunScenes } from './scenes/first-run.ts'
import { gaugeScenes } from './scenes/gauges.ts'
import { helpScenes } from './scenes/help.ts'
import { machineScenes } from './scenes/machine.ts'
import type { StatedScene } from './scenes/scene.ts'
import { serviceScenes } from './scenes/services.ts'
import { settingsScenes } from './scenes/settings.ts'
import { updateScenes } from './scenes/updates.ts'
import { viewScenes } from './scenes/views.ts'

const all = {
  ...machineScenes,
  ...firstRunScenes,
  ...updateScenes,
  ...gaugeScenes,
  ...serviceScenes,
  ...detailScenes,
  ...addingScenes,
  ...viewScenes,
  ...settingsScenes,
  ...helpScenes,
}
export type SceneName = keyof typeof all

/** By the name of its picture. */
export const scenes: Readonly<Record<SceneName, StatedScene>> = all
export const sceneNames = Object.keys(all) as SceneName[]
