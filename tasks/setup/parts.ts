import { chromiumPart } from './chromium.ts'
import { controlPlanePart } from './control-plane.ts'
import { llamaServerPart } from './llama-server.ts'
import { mlxLmPart } from './mlx-lm.ts'
import { ollamaPart } from './ollama.ts'
import type { Part } from './part.ts'
import { smallEnginePart, smallModelPart } from './small-parts.ts'

/** Everything the tests need beside npm's packages. */
export const parts: readonly Part[] = [
  controlPlanePart,
  llamaServerPart,
  mlxLmPart,
  ollamaPart,
  chromiumPart,
  smallEnginePart,
  smallModelPart,
]
