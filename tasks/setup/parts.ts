import { chromiumPart } from './chromium.ts'
import { clientsPart } from './clients.ts'
import { controlPlanePart } from './control-plane.ts'
import { kubectlPart } from './kubectl.ts'
import { llamaServerPart } from './llama-server.ts'
import { mlxLmPart } from './mlx-lm.ts'
import { ollamaPart } from './ollama.ts'
import type { Part } from './part.ts'
import { smallEnginePart, smallModelPart } from './small-parts.ts'

/** Everything the tests need beside npm's packages. */
export const parts: readonly Part[] = [
  controlPlanePart,
  kubectlPart,
  llamaServerPart,
  mlxLmPart,
  ollamaPart,
  chromiumPart,
  smallEnginePart,
  smallModelPart,
]

/** What only the storms need beside these. */
export const longParts: readonly Part[] = [...parts, clientsPart]
