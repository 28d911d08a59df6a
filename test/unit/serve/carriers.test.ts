import { testCarriers } from '../../support/carriers/carrier-suite.ts'
import { httpCarrier } from '../../support/carriers/http-carrier.ts'
import { socketCarrier } from '../../support/carriers/socket-carrier.ts'

testCarriers([socketCarrier, httpCarrier])
