#!/bin/sh
MIN_ISR=1
const => { }
